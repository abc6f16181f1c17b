#include "pipelines/pictures/reference_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/expect_error.h"
#include "pipelines/pictures/test_images.h"
#include "test_data.h"

namespace lamina {
namespace {

struct Preparation {
  std::int64_t height, width, new_height, new_width;
  std::uint64_t hash;
  float first, last;
};

/// Recorded by tools/record/record_resizes.py. The hash is of the 8-bit picture.
const Preparation kPreparations[] = {
    {100, 135, 96, 128, 0x805D37E6EE1177A5, -0.9372549057006836F, 0.37254905700683594F},
    {64, 512, 64, 512, 0xF6218B1CF3ABA9A5, -1.0F, 0.32549023628234863F},
    {1024, 1024, 1024, 1024, 0xC9296E4647A93B25, -1.0F, 0.10588240623474121F},
    {1201, 1503, 912, 1136, 0x1FD7EE1F925E8566, -0.8588235378265381F, 0.22352945804595947F},
    {700, 2100, 576, 1760, 0x2FC8CCEBACDFB113, -0.3960784077644348F, 0.8352941274642944F},
    {1500, 3000, 720, 1440, 0x9387978A8020F496, -0.4745097756385803F, -0.1450980305671692F},
    {3001, 1000, 1760, 576, 0x3CD3D4ABA75D3A27, 0.3490196466445923F, 0.29411768913269043F},
    {2400, 300, 2400, 288, 0xC52A531F9FECD259, -0.8823529481887817F, 0.37254905700683594F},
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

TEST(ReferenceImage, NotesWhatWasDoneToThePicture) {
  const auto notes = [](std::int64_t height, std::int64_t width) {
    return prepare_reference(testing::pattern(height, width), 16, "cat.jpg").notes;
  };
  EXPECT_THAT(notes(96, 128), ::testing::IsEmpty());
  EXPECT_THAT(notes(100, 128), ::testing::ElementsAre("cat.jpg: 128 x 100 pixels are used as 128 x 96: the edges are "
                                                      "cropped"));
  EXPECT_THAT(notes(2048, 2048), ::testing::ElementsAre("cat.jpg: 2048 x 2048 pixels are used as 1024 x 1024: scaled "
                                                        "to 1024 x 1024"));
  EXPECT_THAT(notes(1500, 3000), ::testing::ElementsAre("cat.jpg: 3000 x 1500 pixels are used as 1440 x 720: scaled to "
                                                        "1448 x 724, the edges are cropped"));
}

TEST(ReferenceImage, IsUprightBeforeAnythingElse) {
  const PictureFile photo = read_picture(test_data::fixtures() / "images" / "photo6.jpg");
  const ReferenceImage turned = prepare_reference(photo, 16, "photo6.jpg");
  EXPECT_EQ(turned.height, 96);
  EXPECT_EQ(turned.width, 64);
  EXPECT_THAT(turned.notes, ::testing::ElementsAre(::testing::HasSubstr("its colour profile (Display P3) is not")));
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
