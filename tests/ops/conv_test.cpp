#include "ops/conv.h"

#include <fmt/format.h>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class ConvTest : public OpTest {
 protected:
  static Values expected(const Tensor& x, const Tensor& w, const Tensor& bias, const ops::Conv2dOptions& options,
                         const Shape& result) {
    const auto value_of = [&](std::int64_t i, std::int64_t j, std::int64_t c) {
      if (i < 0 || j < 0 || i >= x.view.size(0) || j >= x.view.size(1)) return 0.0;
      return x.values[static_cast<std::size_t>((i * x.view.size(1) + j) * x.view.size(2) + c)];
    };
    const auto pixel = [&](std::int64_t i, std::int64_t j, std::int64_t o) {
      double sum = bias.values[static_cast<std::size_t>(o)];
      auto weight = w.values.begin() + o * w.view.stride(0);
      for (std::int64_t c = 0; c < w.view.size(1); ++c)
        for (std::int64_t a = 0; a < w.view.size(2); ++a)
          for (std::int64_t b = 0; b < w.view.size(3); ++b)
            sum += *weight++ *
                   value_of(i * options.stride + a - options.pad_top, j * options.stride + b - options.pad_left, c);
      return sum;
    };
    Values y;
    for (std::int64_t i = 0; i < result[0]; ++i)
      for (std::int64_t j = 0; j < result[1]; ++j)
        for (std::int64_t o = 0; o < result[2]; ++o) y.push_back(pixel(i, j, o));
    return y;
  }

  void check(const Shape& input, const Shape& weights, const ops::Conv2dOptions& options, const Shape& result) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(to_string(input) + " by " + to_string(weights) + " " + std::string(to_string(dtype)));
      const Tensor x = random(input);
      const Tensor w = random(dtype, weights);
      const Tensor bias = random(dtype, {weights[0]});
      const Tensor y = blank(result);
      run({x, w, bias, y},
          [&](auto& context, const auto& v) { ops::conv2d(context, v[0], v[1], v[2], options, v[3]); });
      expect_close(read(y), expected(x, w, bias, options, result));
    }
  }
};

TEST_P(ConvTest, ThreeByThreeKeepsTheSize) {
  const ops::Conv2dOptions same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  check({9, 7, 3}, {5, 3, 3, 3}, same, {9, 7, 5});
  check({1, 1, 16}, {16, 16, 3, 3}, same, {1, 1, 16});
  check({2, 11, 20}, {3, 20, 3, 3}, same, {2, 11, 3});
  check({16, 12, 48}, {32, 48, 3, 3}, same, {16, 12, 32});
  check({5, 6, 64}, {64, 64, 3, 3}, same, {5, 6, 64});
}

TEST_P(ConvTest, OneByOne) {
  check({7, 5, 1}, {1, 1, 1, 1}, {}, {7, 5, 1});
  check({7, 5, 32}, {32, 32, 1, 1}, {}, {7, 5, 32});
  check({8, 8, 48}, {33, 48, 1, 1}, {}, {8, 8, 33});
}

TEST_P(ConvTest, StrideTwoWithPaddingBelowAndRight) {
  const ops::Conv2dOptions halve{.stride = 2, .pad_top = 0, .pad_left = 0, .pad_bottom = 1, .pad_right = 1};
  check({8, 6, 5}, {7, 5, 3, 3}, halve, {4, 3, 7});
  check({2, 2, 32}, {32, 32, 3, 3}, halve, {1, 1, 32});
  check({16, 32, 48}, {48, 48, 3, 3}, halve, {8, 16, 48});
  check({9, 7, 4}, {4, 4, 3, 3}, halve, {4, 3, 4});
}

TEST_P(ConvTest, EverySideHasItsOwnPadding) {
  check({6, 5, 4}, {3, 4, 3, 2}, {.stride = 1, .pad_top = 2, .pad_left = 0, .pad_bottom = 0, .pad_right = 1},
        {6, 5, 3});
  check({6, 5, 4}, {3, 4, 3, 3}, {.stride = 1}, {4, 3, 3});
}

TEST_P(ConvTest, LayoutOfTheWeightsIsNotConfusedBetweenShapes) {
  // Equal weights under different images in one process: what is kept for one of them must not serve the other wrongly.
  const ops::Conv2dOptions same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  for (const std::int64_t side : {1, 2, 5, 33, 64}) check({side, side, 24}, {24, 24, 3, 3}, same, {side, side, 24});
}

TEST_P(ConvTest, RefusesOperandsThatDoNotFit) {
  const Tensor x = random(DType::f32, {6, 5, 4});
  const Tensor w = random(DType::f32, {3, 4, 3, 3});
  const Tensor bias = random(DType::f32, {3});
  const auto message = [&](const TensorView& weights, const TensorView& biases, const ops::Conv2dOptions& options,
                           const TensorView& y) {
    const Error thrown = catch_error(
        [&] { plan([&](ops::OpContext& context) { ops::conv2d(context, x.view, weights, biases, options, y); }); });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  const TensorView y = blank({4, 3, 3}, {}, DType::f32).view;
  EXPECT_THAT(message(random(DType::f32, {3, 5, 3, 3}).view, bias.view, {}, y),
              HasSubstr("conv2d: operand w is F32 [3, 5, 3, 3]"));
  EXPECT_THAT(message(w.view, random(DType::f32, {4}).view, {}, y), HasSubstr("operand bias is F32 [4]"));
  EXPECT_THAT(message(w.view, bias.view, {.stride = 2}, y), HasSubstr("operand y is F32 [4, 3, 3]"));
  EXPECT_THAT(message(w.view, bias.view, {.stride = 0}, y), HasSubstr("conv2d: stride 0"));
  EXPECT_THAT(message(w.view, bias.view, {.pad_left = -1}, y), HasSubstr("conv2d: padding -1"));
  EXPECT_THAT(message(random(DType::f32, {3, 4, 7, 3}).view, bias.view, {}, y),
              HasSubstr("a kernel of 7 on 6 padded pixels"));
  const Tensor both = random(DType::f32, {8, 3, 4});
  EXPECT_THAT(catch_error([&] {
                plan([&](ops::OpContext& context) {
                  ops::conv2d(context, both.view.slice(0, 0, 5), random(DType::f32, {4, 4, 1, 1}).view,
                              random(DType::f32, {4}).view, {}, both.view.slice(0, 3, 8));
                });
              }).message(),
              HasSubstr("no overlap with operand x"));
}

TEST_P(ConvTest, ChannelsOfAModel) {
  const ops::Conv2dOptions same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  check({16, 16, 128}, {128, 128, 3, 3}, same, {16, 16, 128});
  check({16, 16, 128}, {3, 128, 3, 3}, same, {16, 16, 3});
  check({17, 16, 32}, {256, 32, 3, 3}, same, {17, 16, 256});
  check({9, 8, 64}, {72, 64, 3, 3}, {.stride = 2, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1},
        {5, 4, 72});
}

TEST_P(ConvTest, OneByOneWithStrideOrPadding) {
  check({7, 6, 16}, {8, 16, 1, 1}, {.stride = 2}, {4, 3, 8});
  check({5, 4, 16}, {8, 16, 1, 1}, {.stride = 1, .pad_top = 1, .pad_left = 0, .pad_bottom = 0, .pad_right = 2},
        {6, 6, 8});
}

TEST_P(ConvTest, GivesTheSameBytesAgainAtAnyAddress) {
  for (const int pad_top : {0, 1}) {
    const ops::Conv2dOptions options{.stride = 1, .pad_top = pad_top, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
    const Tensor x = random({18, 20, 64});
    const Tensor w = random(DType::bf16, {64, 64, 3, 3});
    const Tensor bias = random(DType::bf16, {64});
    const auto convolve = [&] {
      const Tensor y = blank({17 + pad_top, 20, 64});
      run({another(x), another(w), another(bias), y},
          [&](auto& context, const auto& v) { ops::conv2d(context, v[0], v[1], v[2], options, v[3]); });
      return read(y);
    };
    const Values first = convolve();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(convolve(), first);
  }
}

TEST_P(ConvTest, UpsamplingRepeatsPixels) {
  for (const std::size_t channels : {7, 8, 24}) {
    const auto last = static_cast<std::int64_t>(channels);
    const Tensor x = random({3, 50, last});
    const Tensor y = blank({6, 100, last});
    run({x, y}, [](auto& context, const auto& v) { ops::upsample_nearest_2x(context, v[0], v[1]); });
    Values repeated;
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 100; ++j)
        for (std::size_t c = 0; c < channels; ++c) repeated.push_back(x.values[(i / 2 * 50 + j / 2) * channels + c]);
    EXPECT_EQ(read(y), repeated);
  }

  const Tensor x = random({3, 5, 7});
  const Tensor wrong = blank({6, 9, 7});
  EXPECT_THAT(catch_error([&] {
                plan([&](ops::OpContext& context) { ops::upsample_nearest_2x(context, x.view, wrong.view); });
              }).message(),
              HasSubstr(fmt::format("upsample_nearest_2x: operand y is {} [6, 9, 7]", to_string(activations()))));
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
