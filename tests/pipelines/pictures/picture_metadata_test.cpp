#include "pipelines/pictures/picture_metadata.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

using namespace std::string_literals;

PictureMetadata with_orientation(char value) {
  return {.exif = "II\x2A\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + value + "\0\0\0\0\0\0\0"s};
}

/// A profile of one tag.
std::string profile(const std::string& tag) {
  const char size = static_cast<char>(tag.size());
  return std::string(128, '\0') + "\0\0\0\x01"s + "desc" + "\0\0\0\x90\0\0\0"s + size + tag;
}

TEST(PictureMetadata, OrientationsThatDoNotExistAreNone) {
  EXPECT_EQ(orientation({}), 1);
  EXPECT_EQ(orientation(with_orientation('\x08')), 8);
  EXPECT_EQ(orientation(with_orientation('\x09')), 1);
  EXPECT_EQ(orientation(with_orientation('\0')), 1);
}

TEST(PictureMetadata, ExifCountsBeforeXmp) {
  PictureMetadata both = with_orientation('\x03');
  both.xmp = "<tiff:Orientation>6</tiff:Orientation>";
  EXPECT_EQ(orientation(both), 3);
  both.exif.clear();
  EXPECT_EQ(orientation(both), 6);
  both.xmp = "tiff:Orientation=\"";
  EXPECT_EQ(orientation(both), 1);
}

TEST(PictureMetadata, NamesProfilesOfBothVersions) {
  EXPECT_EQ(foreign_colour_profile(""), std::nullopt);
  EXPECT_EQ(foreign_colour_profile(profile("desc\0\0\0\0\0\0\0\x0A"s + "Adobe RGB\0"s)), "Adobe RGB");
  const std::string mluc = "mluc\0\0\0\0\0\0\0\x01\0\0\0\x0C"s + "enUS\0\0\0\x04\0\0\0\x1C"s + "\0P\0\x33"s;
  EXPECT_EQ(foreign_colour_profile(profile(mluc)), "P3");
  EXPECT_EQ(foreign_colour_profile(profile("desc\0\0\0\0\0\0\0\x05"s + "sRGB\0"s)), std::nullopt);
}

TEST(PictureMetadata, DamagedProfilesAreUnnamed) {
  const std::string whole = profile("desc\0\0\0\0\0\0\0\x0A"s + "Adobe RGB\0"s);
  for (std::size_t length = 1; length < whole.size(); ++length)
    EXPECT_EQ(foreign_colour_profile(whole.substr(0, length)), "unnamed") << length;
  EXPECT_EQ(foreign_colour_profile(profile("desc\0\0\0\0\xFF\xFF\xFF\xFF"s)), "unnamed");
}

}  // namespace
}  // namespace lamina
