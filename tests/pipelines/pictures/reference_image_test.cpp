#include "pipelines/pictures/reference_image.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/expect_error.h"
#include "pipelines/pictures/test_images.h"

namespace lamina {
namespace {

struct Preparation {
  std::int64_t height, width, new_height, new_width;
  std::uint64_t hash;
  float first, last;
};

/// Recorded from Pillow 13.0 and numpy with the steps of the reference's image processor: LANCZOS resize to the area,
/// centre crop, x / 255 * 2 - 1. The hash is of the 8-bit picture.
const Preparation kPreparations[] = {
    {100, 135, 96, 128, 0x805D37E6EE1177A5, -0.9372549057006836F, 0.37254905700683594F},
    {64, 512, 64, 512, 0xF6218B1CF3ABA9A5, -1.0F, 0.32549023628234863F},
    {1024, 1024, 1024, 1024, 0xC9296E4647A93B25, -1.0F, 0.10588240623474121F},
    {1201, 1503, 912, 1136, 0x1FD7EE1F925E8566, -0.8588235378265381F, 0.22352945804595947F},
    {700, 2100, 576, 1760, 0x2FC8CCEBACDFB113, -0.3960784077644348F, 0.8352941274642944F},
};

TEST(ReferenceImage, IsPreparedAsTheReferenceDoes) {
  for (const Preparation& expected : kPreparations) {
    const ReferenceImage reference = prepare_reference(testing::pattern(expected.height, expected.width), 16, "x.png");
    EXPECT_EQ(reference.height, expected.new_height);
    EXPECT_EQ(reference.width, expected.new_width);
    EXPECT_EQ(reference.values.front(), expected.first);
    EXPECT_EQ(reference.values.back(), expected.last);
    std::vector<std::uint8_t> bytes;
    for (const float value : reference.values)
      bytes.push_back(static_cast<std::uint8_t>(std::lround((value + 1.0F) / 2.0F * 255.0F)));
    EXPECT_EQ(testing::hash(bytes), expected.hash) << expected.height << " x " << expected.width;
  }
}

TEST(ReferenceImage, RefusesSmallAndNarrowPictures) {
  const auto refused = [](std::int64_t height, std::int64_t width, std::vector<std::string> parts) {
    parts.push_back("cat.jpg");
    testing::expect_error(ErrorCode::invalid_argument, parts,
                          [&] { prepare_reference(testing::pattern(height, width), 16, "cat.jpg"); });
  };
  refused(63, 200, {"200 x 63", "64"});
  refused(200, 63, {"63 x 200", "64"});
  refused(64, 513, {"513 x 64", "8 times"});
  refused(513, 64, {"64 x 513", "8 times"});
}

}  // namespace
}  // namespace lamina
