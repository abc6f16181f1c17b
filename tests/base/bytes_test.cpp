#include "base/bytes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "base/expect_error.h"

namespace lamina {
namespace {

constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();

TEST(ParseSize, ReadsBytesAndUnits) {
  EXPECT_EQ(parse_size("0", "--x"), 0u);
  EXPECT_EQ(parse_size("4096", "--x"), 4096u);
  EXPECT_EQ(parse_size("512B", "--x"), 512u);
  EXPECT_EQ(parse_size("13MiB", "--x"), 13631488u);
  EXPECT_EQ(parse_size("13 MiB", "--x"), 13631488u);
  EXPECT_EQ(parse_size("1.5GiB", "--x"), 1610612736u);
  EXPECT_EQ(parse_size("2GB", "--x"), 2000000000u);
  EXPECT_EQ(parse_size("1.001KB", "--x"), 1001u);
  EXPECT_EQ(parse_size("3TiB", "--x"), 3298534883328u);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", "-1", "-1MiB", "12 M", "12mib", "1e3", "inf", "nan", "0x10", "1MiB2",
                           "9999999TiB", "99999999999999999999999999", "1,5GiB", "13  MiB"}) {
    SCOPED_TRACE(text);
    testing::expect_error(ErrorCode::invalid_argument, {"--device-memory", fmt::format("'{}'", text)},
                          [&] { parse_size(text, "--device-memory"); });
  }
}

TEST(FormatSize, UsesBinaryUnits) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_size(14050918), "13.4 MiB");
  EXPECT_EQ(format_size(kGiB + kGiB / 4), "1.25 GiB");
}

TEST(AlignUp, RoundsToTheNextMultiple) {
  EXPECT_EQ(align_up(0, 256), 0u);
  EXPECT_EQ(align_up(1, 256), 256u);
  EXPECT_EQ(align_up(256, 256), 256u);
  EXPECT_EQ(align_up(257, 256), 512u);
}

TEST(CheckedArithmetic, ReportsOverflow) {
  EXPECT_EQ(checked_mul(0, kMax), 0u);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(std::size_t{1} << 32, std::size_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
}

}  // namespace
}  // namespace lamina
