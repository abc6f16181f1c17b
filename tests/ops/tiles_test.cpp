#include "ops/tiles.h"

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kHeight = 7;
constexpr std::int64_t kWidth = 9;
constexpr std::int64_t kChannels = 3;

class TilesTest : public OpTest {
 protected:
  static std::size_t index_of(std::int64_t row, std::int64_t column, std::int64_t channel, std::int64_t width) {
    return static_cast<std::size_t>((row * width + column) * kChannels + channel);
  }

  /// A tile of ones blended into zeros: the weights.
  Values weights(const Shape& shape, const ops::TileOverlap& overlap) {
    const auto count = static_cast<std::size_t>(shape.elements());
    const Tensor window = tensor(DType::f32, shape, Values(count, 0), {2, 1, 0});
    run({tensor(activations(), shape, Values(count, 1)), window},
        [&](auto& context, const auto& v) { ops::blend_tile(context, v[0], overlap, v[1]); });
    return read(window);
  }
};

TEST_P(TilesTest, CutsTheWindowOutOfThePicture) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor window = random(dtype, {kHeight, kWidth, kChannels}, {4, 3, 0});
    const Tensor tile = blank({kHeight, kWidth, kChannels}, {}, dtype);
    run({window, tile}, [](auto& context, const auto& v) { ops::cut_tile(context, v[0], v[1]); });
    EXPECT_EQ(read(tile), window.values);
  }
}

TEST_P(TilesTest, AddsATileByItsWeights) {
  const Tensor tile = random({kHeight, kWidth, kChannels});
  const Tensor window = random(DType::f32, {kHeight, kWidth, kChannels}, {4, 3, 0});
  run({tile, window}, [](auto& context, const auto& v) {
    ops::blend_tile(context, v[0], {.top = 2, .left = 4, .bottom = 3, .right = 5}, v[1]);
  });
  const Values down{0, 0.5, 1, 1, 1, 2.0 / 3, 1.0 / 3};
  const Values across{0, 0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2};
  Values expected = window.values;
  for (std::int64_t row = 0; row < kHeight; ++row)
    for (std::int64_t column = 0; column < kWidth; ++column)
      for (std::int64_t channel = 0; channel < kChannels; ++channel) {
        const std::size_t i = index_of(row, column, channel, kWidth);
        expected[i] += down[static_cast<std::size_t>(row)] * across[static_cast<std::size_t>(column)] * tile.values[i];
      }
  expect_close(read(window), expected);
}

/// Four tiles that overlap by 4 rows and 5 columns, and the place where all four meet.
TEST_P(TilesTest, WeightsOfNeighboursAddUpToOne) {
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kColumns = 5;
  const Shape shape{kHeight, kWidth, kChannels};
  const Values top_left = weights(shape, {.bottom = kRows, .right = kColumns});
  const Values top_right = weights(shape, {.left = kColumns, .bottom = kRows});
  const Values bottom_left = weights(shape, {.top = kRows, .right = kColumns});
  const Values bottom_right = weights(shape, {.top = kRows, .left = kColumns});
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t column = 0; column < kColumns; ++column)
      for (std::int64_t channel = 0; channel < kChannels; ++channel) {
        const auto at = [&](const Values& values, std::int64_t down, std::int64_t right) {
          return values[index_of(row + down, column + right, channel, kWidth)];
        };
        constexpr std::int64_t kDown = kHeight - kRows;
        constexpr std::int64_t kRight = kWidth - kColumns;
        EXPECT_NEAR(
            at(top_left, kDown, kRight) + at(top_right, kDown, 0) + at(bottom_left, 0, kRight) + at(bottom_right, 0, 0),
            1.0, 1e-6);
      }
}

TEST_P(TilesTest, RefusesOperandsThatDoNotFit) {
  const auto message = [&](const Tensor& tile, const Tensor& window, const ops::TileOverlap& overlap) {
    return catch_error([&] {
             plan([&](ops::OpContext& context) { ops::blend_tile(context, tile.view, overlap, window.view); });
           })
        .message();
  };
  const Tensor tile = random({4, 4, 3});
  const Tensor window = random(DType::f32, {4, 4, 3});
  EXPECT_THAT(message(tile, random(DType::f32, {4, 5, 3}), {}), HasSubstr("blend_tile: operand window"));
  EXPECT_THAT(message(tile, window, {.top = 3, .bottom = 2}), HasSubstr("overlaps 3, 0, 2, 0"));
  EXPECT_THAT(message(random({4, 4, 3}, {0, 1, 0}), window, {}), HasSubstr("blend_tile: operand tile"));
  EXPECT_THAT(catch_error([&] {
                plan([&](ops::OpContext& context) { ops::cut_tile(context, window.view, random({4, 4, 2}).view); });
              }).message(),
              HasSubstr("cut_tile: operand tile"));
}

INSTANTIATE_TEST_SUITE_P(Devices, TilesTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
