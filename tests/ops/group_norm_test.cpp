#include "ops/group_norm.h"

#include <cmath>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class GroupNormTest : public OpTest {
 protected:
  static Values expected(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const ops::GroupNormOptions& options) {
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

  void check(const Tensor& x, const Tensor& y, const ops::GroupNormOptions& options, DType weights = DType::f32,
             DType biases = DType::f32) {
    const Tensor weight = random(weights, {x.view.size(2)});
    const Tensor bias = random(biases, {x.view.size(2)});
    run({x, weight, bias, y},
        [&](auto& context, const auto& v) { ops::group_norm(context, v[0], v[1], v[2], options, v[3]); });
    expect_close(read(y), expected(x, weight, bias, options));
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
  const auto message = [&](const Tensor& weight, const Tensor& bias, int groups, const TensorView& y) {
    const Error thrown = catch_error([&] {
      plan([&](ops::OpContext& context) {
        ops::group_norm(context, x.view, weight.view, bias.view, {.groups = groups}, y);
      });
    });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  const TensorView y = blank({4, 5, 6}, {}, DType::f32).view;
  EXPECT_THAT(message(five, six, 2, y), HasSubstr("group_norm: operand weight is F32 [5]"));
  EXPECT_THAT(message(six, five, 2, y), HasSubstr("operand bias is F32 [5]"));
  EXPECT_THAT(message(six, six, 2, blank({4, 6, 5}, {}, DType::f32).view), HasSubstr("operand y is F32 [4, 6, 5]"));
  EXPECT_THAT(message(six, six, 4, y), HasSubstr("6 channels do not form 4 groups"));
  EXPECT_THAT(message(six, six, 0, y), HasSubstr("6 channels do not form 0 groups"));
}

INSTANTIATE_TEST_SUITE_P(Devices, GroupNormTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
