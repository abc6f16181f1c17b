#include "pipelines/pictures/lanczos.h"

#include <gtest/gtest.h>

#include "pipelines/pictures/test_images.h"

namespace lamina {
namespace {

struct Resize {
  std::int64_t height, width, new_height, new_width;
  std::uint64_t hash;
};

/// Recorded by tools/record/record_resizes.py.
const Resize kResizes[] = {
    {40, 60, 17, 23, 0x240FB299EB03570F}, {33, 21, 50, 64, 0xD2B92982868315BB}, {37, 53, 37, 20, 0x9C1E594EF9C7CA64},
    {64, 48, 13, 48, 0x10AC5912B0B0AD1F}, {5, 300, 4, 11, 0xE55CD15FB03CB35A},  {30, 40, 25, 51, 0xCF8D6F688F1C6DB7},
    {40, 30, 50, 25, 0x57AB3840661CA389}, {60, 20, 20, 5, 0x964B6A1121FDEA2D},  {60, 20, 30, 5, 0x5549EF78E1D4A7BC},
    {60, 20, 30, 6, 0x7FE91E90DF5AFB08},  {1, 500, 3, 7, 0x044F9C65A9084F33},   {500, 1, 7, 3, 0xB4BFC8D7A10B0E46},
    {301, 3, 1, 1, 0xCE8B021987A33BFA},   {3, 5, 211, 307, 0x9BF436DA4F7EC608},
};

TEST(Lanczos, ResizesAsPillowByteForByte) {
  for (const Resize& expected : kResizes) {
    const RgbImage resized =
        resize_lanczos(testing::pattern(expected.height, expected.width), expected.new_height, expected.new_width);
    EXPECT_EQ(resized.height, expected.new_height);
    EXPECT_EQ(resized.width, expected.new_width);
    EXPECT_EQ(testing::hash(resized.pixels), expected.hash)
        << expected.height << " x " << expected.width << " to " << expected.new_height;
  }
}

TEST(Lanczos, SameSizeIsTheSamePicture) {
  const RgbImage image = testing::pattern(9, 7);
  EXPECT_EQ(resize_lanczos(image, 9, 7), image);
}

TEST(Lanczos, PlainStaysPlain) {
  const RgbImage plain{30, 50, std::vector<std::uint8_t>(30 * 50 * 3, 201)};
  EXPECT_EQ(resize_lanczos(plain, 7, 90).pixels, std::vector<std::uint8_t>(7 * 90 * 3, 201));
}

}  // namespace
}  // namespace lamina
