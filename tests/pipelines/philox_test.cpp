#include "pipelines/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr float kTolerance = 1e-5F;

/// Known answers of Random123.
TEST(Philox, WordsAreThoseOfTheLibrary) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8));
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_THAT(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD));
}

/// torch.randn(3, 4, device="cuda", generator of seed 0), as it is published of many GPUs.
TEST(Philox, NormalsAreTorchsOfACudaDevice) {
  const std::vector<float> expected = {-0.92466259F, -0.42534415F, -2.6438457F,  0.14518388F,
                                       -0.12086647F, -0.57972564F, -0.62285122F, -0.32838709F,
                                       -1.07454231F, -0.36314407F, -1.67105067F, 2.26550497F};
  EXPECT_THAT(PhiloxGenerator(0).draw(12), Pointwise(FloatNear(kTolerance), expected));
}

TEST(Philox, TheNextDrawGoesOnBehindTheFirst) {
  PhiloxGenerator generator(7);
  const std::vector<float> first = generator.draw(300);
  const std::vector<float> second = generator.draw(300);
  EXPECT_NE(first, second);
  EXPECT_EQ(PhiloxGenerator(7).draw(300), first);
}

/// 1,056 blocks of 256 threads draw at most 270,336 values at once; the next ones are each thread's second values.
TEST(Philox, LargeDrawsTakeSeveralValuesOfAThread) {
  constexpr std::size_t kThreads = 270'336;
  const std::vector<float> large = PhiloxGenerator(3).draw(kThreads + 5);
  const std::vector<float> small = PhiloxGenerator(3).draw(kThreads);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), large.begin()));
  // A thread's first two values are the sine and the cosine of one angle and radius.
  const std::array<std::uint32_t, 4> words = philox4x32({0, 0, 4, 0}, {3, 0});
  const double radius = std::sqrt(-2 * std::log((words[0] + 0.5) / 4294967296.0));
  const double angle = 2 * 3.14159265358979323846 * (words[1] + 0.5) / 4294967296.0;
  EXPECT_NEAR(large[4], radius * std::sin(angle), kTolerance);
  EXPECT_NEAR(large[kThreads + 4], radius * std::cos(angle), kTolerance);
}

/// Recorded with torch 2.11 on an H200: torch.randn((1, 128, 64, 64)), then (1, 128, 8, 8), of one generator. The
/// values after number 270,336 are second ones of their threads.
TEST(Philox, LatentsOfALargePictureAreThoseOfAnH200) {
  struct Row {
    std::uint64_t seed;
    std::vector<float> first, second_values, next_draw;
  };
  for (const Row& row : {Row{0,
                             {-0.924662F, -0.425344F, -2.643846F, 0.145184F},
                             {0.991138F, 1.06759F, -0.627228F, 0.320162F},
                             {0.180826F, -0.552263F, 0.923813F, -0.73497F}},
                         Row{7,
                             {-0.304847F, 1.045333F, -0.278564F, 0.71782F},
                             {0.000291F, 0.559922F, 0.204943F, 0.728884F},
                             {-1.287012F, -0.395833F, 0.375573F, 0.257339F}}}) {
    PhiloxGenerator generator(row.seed);
    const std::vector<float> large = generator.draw(524'288);
    const auto part = [](const std::vector<float>& values, std::ptrdiff_t at) {
      return std::vector<float>(values.begin() + at, values.begin() + at + 4);
    };
    EXPECT_THAT(part(large, 0), Pointwise(FloatNear(kTolerance), row.first));
    EXPECT_THAT(part(large, 270'336), Pointwise(FloatNear(kTolerance), row.second_values));
    EXPECT_THAT(generator.draw(4), Pointwise(FloatNear(kTolerance), row.next_draw));
  }
}

/// A fifth value of a thread belongs to its next call.
TEST(Philox, VeryLargeDrawsCallAThreadAgain) {
  constexpr std::size_t kOnePass = std::size_t{4} * 270'336;
  const std::vector<float> values = PhiloxGenerator(3).draw(kOnePass + 1);
  const std::array<std::uint32_t, 4> words = philox4x32({1, 0, 0, 0}, {3, 0});
  const double radius = std::sqrt(-2 * std::log((words[0] + 0.5) / 4294967296.0));
  const double angle = 2 * 3.14159265358979323846 * (words[1] + 0.5) / 4294967296.0;
  EXPECT_NEAR(values.back(), radius * std::sin(angle), kTolerance);
}

}  // namespace
}  // namespace lamina
