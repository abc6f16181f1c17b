#include "ops/group_norm.h"

#include <algorithm>
#include <cmath>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

struct NormOptions {
  int groups = 1;
  float epsilon = 1e-6F;
  ops::Activation activation = ops::Activation::none;
};

class GroupNormTest : public OpTest {
 protected:
  static Values expected(const Tensor& x, const Tensor& weight, const Tensor& bias, const NormOptions& options) {
    const auto channels = static_cast<std::size_t>(x.view.size(2));
    const std::size_t width = channels / static_cast<std::size_t>(options.groups);
    const auto mean_of = [&](std::size_t group, const auto& term) {
      double sum = 0;
      std::size_t count = 0;
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        if (i % channels / width != group) continue;
        sum += term(x.values[i]);
        ++count;
      }
      return sum / static_cast<double>(count);
    };
    Values means;
    Values deviations;
    for (std::size_t group = 0; group < channels / width; ++group) {
      const double mean = mean_of(group, [](double value) { return value; });
      const double variance = mean_of(group, [&](double value) { return (value - mean) * (value - mean); });
      means.push_back(mean);
      deviations.push_back(std::sqrt(variance + static_cast<double>(options.epsilon)));
    }
    Values y;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const std::size_t c = i % channels;
      const double value = (x.values[i] - means[c / width]) / deviations[c / width] * weight.values[c] + bias.values[c];
      y.push_back(options.activation == ops::Activation::silu ? value / (1 + std::exp(-value)) : value);
    }
    return y;
  }

  void check(const Tensor& x, const Tensor& y, const NormOptions& options, DType weights = DType::f32,
             DType biases = DType::f32, std::int64_t bands = 1) {
    const std::int64_t channels = x.view.size(2);
    const Tensor weight = random(weights, {channels});
    const Tensor bias = random(biases, {channels});
    const Values result = expected(x, weight, bias, options);
    const Tensor moments = blank({bands, 2, channels}, {}, DType::f64);
    const Tensor normalisation = blank({3, channels}, {}, DType::f32);
    const std::int64_t rows = (x.view.size(0) + bands - 1) / bands;
    for (std::int64_t band = 0; band < bands; ++band) {
      const Tensor part{x.view.slice(0, band * rows, std::min((band + 1) * rows, x.view.size(0))), {}};
      const Tensor of_part{moments.view.slice(0, band, band + 1).reshape({2, channels}), {}};
      run({part, of_part}, [](auto& context, const auto& v) { ops::channel_moments(context, v[0], v[1]); });
    }
    const std::int64_t pixels = x.view.size(0) * x.view.size(1);
    run({moments, weight, bias, normalisation}, [&](auto& context, const auto& v) {
      ops::group_normalisation(context, v[0], pixels, v[1], v[2], {options.groups, options.epsilon}, v[3]);
    });
    run({x, normalisation, y},
        [&](auto& context, const auto& v) { ops::normalise_channels(context, v[0], v[1], options.activation, v[2]); });
    expect_close(read(y), result);
  }
};

TEST_P(GroupNormTest, NormalisesOddShapesInBothWeightTypesAndActivations) {
  struct Case {
    std::int64_t height, width, channels;
    int groups;
  };
  for (const auto& [height, width, channels, groups] : {Case{5, 7, 6, 3}, Case{1, 1, 4, 1}, Case{3, 2, 5, 5},
                                                        Case{9, 4, 20, 2}, Case{16, 12, 48, 16}, Case{2, 3, 1, 1}}) {
    for (const DType weights : {DType::f32, DType::bf16}) {
      for (const ops::Activation activation : {ops::Activation::none, ops::Activation::silu}) {
        SCOPED_TRACE(::testing::Message() << height << "x" << width << "x" << channels << " in " << groups);
        const Shape shape{height, width, channels};
        check(random(shape), blank(shape), {groups, 1e-6F, activation}, weights, weights);
      }
    }
  }
}

TEST_P(GroupNormTest, NormalisesLargeImagesAndManyChannels) {
  struct Case {
    Shape shape;
    int groups;
  };
  for (const auto& [shape, groups] : {Case{{64, 48, 128}, 32}, Case{{37, 41, 32}, 8}, Case{{9, 90, 65}, 5},
                                      Case{{3, 2, 4096}, 32}, Case{{2, 3, 2050}, 41}}) {
    SCOPED_TRACE(to_string(shape));
    check(random(activations(), shape, {}, 3, 0.5), blank(shape), {groups, 1e-6F, ops::Activation::silu});
  }
}

/// Bands of 13 rows, and one of 12.
TEST_P(GroupNormTest, MomentsOfBandsAddUp) {
  const Shape shape{64, 7, 20};
  check(random(activations(), shape, {}, 3, 0.5), blank(shape), {5, 1e-6F, ops::Activation::silu}, DType::f32,
        DType::bf16, 5);
}

TEST_P(GroupNormTest, TakesWeightAndBiasOfUnlikeTypes) {
  const Shape shape{4, 3, 10};
  check(random(shape), blank(shape), {5, 1e-6F, ops::Activation::none}, DType::f32, DType::bf16);
  check(random(shape), blank(shape), {5, 1e-6F, ops::Activation::none}, DType::bf16, DType::f32);
}

TEST_P(GroupNormTest, RunsInPlace) {
  const Tensor x = random({6, 5, 12});
  check(x, x, {4, 1e-6F, ops::Activation::silu}, DType::bf16);
}

TEST_P(GroupNormTest, KeepsSmallDeviationsFromALargeMean) {
  // In one pass over f32 squares, nothing would be left of the variance.
  Values shifted;
  for (const double value : random(DType::f32, {16, 16, 4}).values) shifted.push_back(8192 + std::round(value * 8) / 8);
  check(tensor(activations(), {16, 16, 4}, shifted), blank({16, 16, 4}), {2, 1e-6F, ops::Activation::none});
}

TEST_P(GroupNormTest, EpsilonCounts) {
  const Tensor x = random(activations(), {4, 4, 6}, {}, 0, 0.1);
  check(x, blank({4, 4, 6}), {2, 0.5F, ops::Activation::none});
}

TEST_P(GroupNormTest, AConstantGroupBecomesItsBias) {
  check(tensor(activations(), {3, 3, 2}, Values(18, 0.7)), blank({3, 3, 2}), {1, 1e-6F, ops::Activation::none});
}

TEST_P(GroupNormTest, RefusesOperandsThatDoNotFit) {
  const Tensor x = random(DType::f32, {4, 5, 6});
  const Tensor six = random(DType::f32, {6});
  const Tensor five = random(DType::f32, {5});
  const TensorView moments = blank({1, 2, 6}, {}, DType::f64).view;
  const TensorView normalisation = blank({3, 6}, {}, DType::f32).view;
  const auto message = [&](const std::function<void(ops::OpContext&)>& operation) {
    const Error thrown = catch_error([&] { plan(operation); });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  const auto normalisation_of = [&](const TensorView& of, const Tensor& weight, const Tensor& bias, int groups) {
    return message([&](ops::OpContext& context) {
      ops::group_normalisation(context, of, 20, weight.view, bias.view, {.groups = groups}, normalisation);
    });
  };
  EXPECT_THAT(normalisation_of(moments, five, six, 2), HasSubstr("operand weight is F32 [5]"));
  EXPECT_THAT(normalisation_of(moments, six, five, 2), HasSubstr("operand bias is F32 [5]"));
  EXPECT_THAT(normalisation_of(moments, six, six, 4), HasSubstr("6 channels do not form 4 groups"));
  EXPECT_THAT(normalisation_of(moments, six, six, 0), HasSubstr("6 channels do not form 0 groups"));
  EXPECT_THAT(normalisation_of(blank({1, 3, 6}, {}, DType::f64).view, six, six, 2), HasSubstr("operand moments"));
  EXPECT_THAT(message([&](ops::OpContext& context) { ops::channel_moments(context, x.view, moments); }),
              HasSubstr("channel_moments: operand moments is F64 [1, 2, 6]"));
  EXPECT_THAT(message([&](ops::OpContext& context) {
                ops::normalise_channels(context, x.view, normalisation, ops::Activation::none,
                                        blank({4, 6, 5}, {}, DType::f32).view);
              }),
              HasSubstr("operand y is F32 [4, 6, 5]"));
}

INSTANTIATE_TEST_SUITE_P(Devices, GroupNormTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
