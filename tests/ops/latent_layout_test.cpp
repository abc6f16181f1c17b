#include "ops/latent_layout.h"

#include <cmath>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRows = 3;  ///< of tokens
constexpr std::int64_t kColumns = 2;
constexpr std::int64_t kChannels = 5;
constexpr std::int64_t kPacked = 4 * kChannels;

class LatentLayoutTest : public OpTest {
 protected:
  Tensor positive(const Shape& shape) {
    Values values = random(DType::f32, shape).values;
    for (double& value : values) value = 0.5 + std::abs(value);
    return tensor(DType::f32, shape, values);
  }

  /// Where pixel (i, j) of channel c lies in the tokens.
  static std::size_t packed_index(std::int64_t i, std::int64_t j, std::int64_t c) {
    const std::int64_t token = i / 2 * kColumns + j / 2;
    return static_cast<std::size_t>(token * kPacked + 4 * c + i % 2 * 2 + j % 2);
  }

  /// Calls visit(index of the pixel's channel, index in the tokens) for every element.
  template <typename Visit>
  static void for_each_pixel(Visit visit) {
    std::size_t pixel = 0;
    for (std::int64_t i = 0; i < 2 * kRows; ++i)
      for (std::int64_t j = 0; j < 2 * kColumns; ++j)
        for (std::int64_t c = 0; c < kChannels; ++c) visit(pixel++, packed_index(i, j, c));
  }
};

TEST_P(LatentLayoutTest, UnpacksTokensToPixels) {
  const Tensor tokens = random(DType::f32, {kRows * kColumns, kPacked});
  const Tensor mean = random(DType::f32, {kPacked});
  const Tensor deviation = positive({kPacked});
  const Tensor pixels = blank({2 * kRows, 2 * kColumns, kChannels});
  run({tokens, mean, deviation, pixels}, [](auto& context, const auto& v) {
    ops::unpack_latents(context, v[0], {v[1], v[2]}, v[3]);
  });
  Values expected(tokens.values.size());
  for_each_pixel([&](std::size_t pixel, std::size_t packed) {
    const std::size_t channel = packed % kPacked;
    expected[pixel] = tokens.values[packed] * deviation.values[channel] + mean.values[channel];
  });
  expect_close(read(pixels), expected);
}

TEST_P(LatentLayoutTest, PacksTheFirstChannelsOfPixels) {
  for (const std::int64_t other_channels : {0, 3}) {
    const Tensor pixels = random({2 * kRows, 2 * kColumns, kChannels}, {0, 0, other_channels});
    const Tensor mean = random(DType::f32, {kPacked});
    const Tensor deviation = positive({kPacked});
    const Tensor tokens = blank({kRows * kColumns, kPacked}, {}, DType::f32);
    run({pixels, mean, deviation, tokens}, [](auto& context, const auto& v) {
      ops::pack_latents(context, v[0], {v[1], v[2]}, v[3]);
    });
    Values expected(pixels.values.size());
    for_each_pixel([&](std::size_t pixel, std::size_t packed) {
      const std::size_t channel = packed % kPacked;
      expected[packed] = (pixels.values[pixel] - mean.values[channel]) / deviation.values[channel];
    });
    expect_close(read(tokens), expected);
  }
}

TEST_P(LatentLayoutTest, RefusesOperandsThatDoNotFit) {
  const Tensor pixels = random(DType::f32, {6, 4, 5});
  const Tensor mean = random(DType::f32, {20});
  const auto message = [&](const TensorView& tokens, const TensorView& image, const TensorView& deviation) {
    const Error thrown = catch_error([&] {
      plan([&](ops::OpContext& context) { ops::pack_latents(context, image, {mean.view, deviation}, tokens); });
    });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  const TensorView tokens = blank({6, 20}, {}, DType::f32).view;
  EXPECT_THAT(message(tokens, random(DType::f32, {5, 4, 5}).view, mean.view),
              HasSubstr("[5, 4, 5] do not form 2x2 patches"));
  EXPECT_THAT(message(blank({6, 16}, {}, DType::f32).view, pixels.view, mean.view),
              HasSubstr("pack_latents: operand tokens"));
  EXPECT_THAT(message(tokens, pixels.view, random(DType::f32, {5}).view), HasSubstr("operand deviation is F32 [5]"));
  const Tensor strided = random(DType::f32, {6, 4, 5}, {0, 0, 1});
  EXPECT_THAT(catch_error([&] {
                plan([&](ops::OpContext& context) {
                  ops::unpack_latents(context, tokens, {mean.view, mean.view}, strided.view);
                });
              }).message(),
              HasSubstr("unpack_latents: operand pixels"));
}

INSTANTIATE_TEST_SUITE_P(Devices, LatentLayoutTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
