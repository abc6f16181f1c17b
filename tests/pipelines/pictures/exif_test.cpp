#include "pipelines/pictures/exif.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

using namespace std::string_literals;

/// Little-endian TIFF of one directory entry.
std::string one_entry(const std::string& entry, const std::string& behind = "") {
  return "II\x2A\0\x08\0\0\0\x01\0"s + entry + "\0\0\0\0"s + behind;
}

TEST(Exif, ReadsNumbersOfBothByteOrders) {
  const std::string little = one_entry("\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s);
  const std::string big = "MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"s;
  EXPECT_EQ(exif_number(little, ExifTag::orientation), std::uint32_t{6});
  EXPECT_EQ(exif_number(big, ExifTag::orientation), std::uint32_t{6});
  EXPECT_EQ(exif_number(little, ExifTag::software), std::nullopt);
}

TEST(Exif, ReadsTextsInTheEntryAndBehindIt) {
  EXPECT_EQ(exif_text(one_entry("\x31\x01\x02\0\x04\0\0\0abc\0"s), ExifTag::software), "abc");
  EXPECT_EQ(exif_text(one_entry("\x31\x01\x02\0\x06\0\0\0\x1A\0\0\0"s, "hello\0"s), ExifTag::software), "hello");
}

TEST(Exif, WhatIsDamagedIsMissing) {
  const std::string whole = one_entry("\x31\x01\x02\0\x06\0\0\0\x1A\0\0\0"s, "hello\0"s);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string cut = whole.substr(0, length);
    EXPECT_EQ(exif_text(cut, ExifTag::software), std::nullopt) << length;
  }
  EXPECT_EQ(exif_number("", ExifTag::orientation), std::nullopt);
  EXPECT_EQ(exif_number(one_entry("\x12\x01\x03\0\x02\0\0\0\x06\0\0\0"s), ExifTag::orientation), std::nullopt);
  EXPECT_EQ(exif_number(one_entry("\x12\x01\x0C\0\x01\0\0\0\x06\0\0\0"s), ExifTag::orientation), std::nullopt);
  EXPECT_EQ(exif_number("II\x2A\0\xFF\xFF\xFF\xFF"s, ExifTag::orientation), std::nullopt);
}

TEST(Exif, ReadsWhatItMakes) {
  for (const std::string text : {"", "abc", "abcd", "{\"prompt\": \"\u7D05\"}"}) {
    const std::string exif = make_exif(text, "lamina 0.1.0");
    EXPECT_EQ(exif_text(exif, ExifTag::image_description), text);
    EXPECT_EQ(exif_text(exif, ExifTag::software), "lamina 0.1.0");
  }
}

}  // namespace
}  // namespace lamina
