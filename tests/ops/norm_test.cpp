#include "ops/norm.h"

#include <cmath>

#include "device/catch_error.h"
#include "op_test.h"
#include "ops/elementwise.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kEpsilon = 1e-6F;

class NormTest : public OpTest {
 protected:
  static Values layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
    const auto features = static_cast<std::size_t>(x.view.size(1));
    Values y;
    for (std::size_t row = 0; row < x.values.size(); row += features) {
      double mean = 0;
      double variance = 0;
      for (std::size_t i = 0; i < features; ++i) mean += x.values[row + i] / static_cast<double>(features);
      for (std::size_t i = 0; i < features; ++i) {
        variance += std::pow(x.values[row + i] - mean, 2) / static_cast<double>(features);
      }
      for (std::size_t i = 0; i < features; ++i) {
        const double normal = (x.values[row + i] - mean) / std::sqrt(variance + epsilon);
        y.push_back(normal * (1 + scale.values[i]) + shift.values[i]);
      }
    }
    return y;
  }

  static Values rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
    const auto features = static_cast<std::size_t>(x.view.size(1));
    Values y;
    for (std::size_t row = 0; row < x.values.size(); row += features) {
      double squares = 0;
      for (std::size_t i = 0; i < features; ++i) squares += x.values[row + i] * x.values[row + i];
      const double factor = 1 / std::sqrt(squares / static_cast<double>(features) + epsilon);
      for (std::size_t i = 0; i < features; ++i) y.push_back(x.values[row + i] * factor * weight.values[i]);
    }
    return y;
  }

  void check_layer_norm(const Tensor& x, const Tensor& y, float epsilon = kEpsilon) {
    const Tensor scale = random({x.view.size(1)});
    const Tensor shift = random({x.view.size(1)});
    run({x, scale, shift, y},
        [&](auto& context, const auto& v) { ops::layer_norm_modulate(context, v[0], v[1], v[2], epsilon, v[3]); });
    expect_close(read(y), layer_norm(x, scale, shift, epsilon));
  }

  struct Modulation {
    Tensor scale;
    Tensor shift;
  };

  void gated_add_norm(const Tensor& x, const Tensor& gate, const Tensor& residual, const Modulation& by,
                      const Tensor& y) {
    run({x, gate, residual, by.scale, by.shift, y}, [](auto& context, const auto& v) {
      ops::gated_add_norm_modulate(context, v[0], v[1], v[2], {v[3], v[4], kEpsilon}, v[5]);
    });
  }

  void check_gated_add_norm(const Tensor& x, const Tensor& residual, const Tensor& y) {
    const Tensor gate = random({x.view.size(1)});
    const Modulation by{random({x.view.size(1)}), random({x.view.size(1)})};
    gated_add_norm(x, gate, residual, by, y);
    Values sum = residual.values;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gate.values[i % gate.values.size()] * x.values[i];
    const Values stored = read(residual);
    expect_close(stored, sum);
    expect_close(read(y), layer_norm({residual.view, stored}, by.scale, by.shift, kEpsilon));
  }

  void check_rms_norm(const Tensor& x, const Tensor& y, DType weights, float epsilon = kEpsilon) {
    const Tensor weight = random(weights, {x.view.size(1)});
    run({x, weight, y}, [&](auto& context, const auto& v) { ops::rms_norm(context, v[0], v[1], epsilon, v[2]); });
    expect_close(read(y), rms_norm(x, weight, epsilon));
  }
};

TEST_P(NormTest, LayerNormModulatesOddShapes) {
  for (const std::int64_t features : {1, 5, 16, 33, 160, 257, 1024, 1100, 4096, 4101, 16383, 16384}) {
    SCOPED_TRACE(features);
    check_layer_norm(random({7, features}), blank({7, features}));
  }
}

TEST_P(NormTest, LayerNormTakesStridedRows) {
  check_layer_norm(random({6, 40}, {1, 9}), blank({6, 40}, {0, 3}));
  check_layer_norm(random({6, 2048}, {1, 16}), blank({6, 2048}, {0, 32}));
}

TEST_P(NormTest, LayerNormRunsInPlace) {
  const Tensor x = random({6, 40}, {0, 5});
  check_layer_norm(x, x);
}

TEST_P(NormTest, LayerNormKeepsSmallDeviationsFromALargeMean) {
  // In one pass over squares, nothing would be left of the variance.
  const Values values = random(DType::f32, {4, 64}).values;
  Values shifted;
  for (const double value : values) shifted.push_back(8192 + std::round(value * 8) / 8);
  check_layer_norm(tensor(activations(), {4, 64}, shifted), blank({4, 64}));
}

TEST_P(NormTest, GatedAddNormAddsAndNormalises) {
  for (const std::int64_t features : {1, 5, 33, 160, 1100, 4096, 4101, 16383, 16384}) {
    SCOPED_TRACE(features);
    check_gated_add_norm(random({7, features}), random({7, features}), blank({7, features}));
  }
  check_gated_add_norm(random({6, 40}, {1, 9}), random({6, 40}, {0, 3}), blank({6, 40}, {0, 5}));
  check_gated_add_norm(random({6, 2048}, {1, 16}), random({6, 2048}, {0, 32}), blank({6, 2048}, {0, 16}));
}

TEST_P(NormTest, GatedAddNormGivesTheBytesOfItsTwoOperations) {
  for (const auto& [shape, gaps] : {std::pair<Shape, Shape>{{7, 160}, {}}, {{6, 37}, {1, 9}}, {{5, 4096}, {0, 16}}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = random(shape, gaps);
    const Tensor residual = random(shape, gaps);
    const Tensor sum = another(residual, gaps);
    const Tensor gate = random({shape[1]});
    const Modulation by{random({shape[1]}), random({shape[1]})};
    const Tensor y = blank(shape, gaps);
    const Tensor normed = blank(shape, gaps);
    gated_add_norm(x, gate, residual, by, y);
    run({x, gate, sum}, [](auto& context, const auto& v) { ops::gated_add(context, v[0], v[1], v[2]); });
    run({sum, by.scale, by.shift, normed},
        [](auto& context, const auto& v) { ops::layer_norm_modulate(context, v[0], v[1], v[2], kEpsilon, v[3]); });
    EXPECT_EQ(read(residual), read(sum));
    EXPECT_EQ(read(y), read(normed));
  }
}

TEST_P(NormTest, RefusesRowsThatFillMoreThanABlocksRegisters) {
  const Tensor x = random({1, 16385});
  const Tensor vector = random({16385});
  const auto norm = [&] {
    plan([&](auto& context) { ops::layer_norm_modulate(context, x.view, vector.view, vector.view, kEpsilon, x.view); });
  };
  if (on_cpu()) {
    EXPECT_NO_THROW(norm());
  } else {
    const Error error = catch_error(norm);
    EXPECT_EQ(error.code(), ErrorCode::not_implemented);
    EXPECT_THAT(error.message(), HasSubstr("layer_norm_modulate: rows of 16385 features, at most 16384"));
  }
}

TEST_P(NormTest, EpsilonCounts) {
  check_layer_norm(random(activations(), {3, 20}, {}, 0, 0.1), blank({3, 20}), 0.5F);
  check_rms_norm(random(activations(), {3, 20}, {}, 0, 0.1), blank({3, 20}), DType::f32, 0.5F);
}

TEST_P(NormTest, RmsNormScalesOddShapesInBothWeightTypes) {
  for (const DType weights : {DType::f32, DType::bf16}) {
    for (const std::int64_t features : {1, 5, 16, 33, 64, 1032, 4096, 16383}) {
      SCOPED_TRACE(features);
      check_rms_norm(random({7, features}), blank({7, features}), weights);
    }
  }
}

TEST_P(NormTest, RmsNormTakesStridedRowsAndRunsInPlace) {
  check_rms_norm(random({6, 40}, {1, 9}), blank({6, 40}, {0, 3}), DType::bf16);
  const Tensor x = random({6, 40}, {0, 5});
  check_rms_norm(x, x, DType::bf16);
}

TEST_P(NormTest, RefusesOperandsThatDoNotFit) {
  const Tensor x = random(DType::f32, {4, 6});
  const Tensor six = random(DType::f32, {6});
  const Tensor five = random(DType::f32, {5});
  const auto error = [&](const auto& operation) {
    const Error thrown = catch_error([&] { plan(operation); });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  using Context = ops::OpContext;
  const TensorView y = blank({4, 6}, {}, DType::f32).view;
  const auto layer_norm = [&](const Tensor& scale, const Tensor& shift, const TensorView& to) {
    return error([&](Context& c) { ops::layer_norm_modulate(c, x.view, scale.view, shift.view, kEpsilon, to); });
  };
  EXPECT_THAT(layer_norm(five, six, y), HasSubstr("layer_norm_modulate: operand scale is F32 [5]"));
  EXPECT_THAT(layer_norm(six, five, y), HasSubstr("operand shift is F32 [5]"));
  EXPECT_THAT(layer_norm(six, six, blank({6, 4}, {}, DType::f32).view), HasSubstr("operand y is F32 [6, 4]"));
  const Tensor pair = random(DType::f32, {5, 6});
  EXPECT_THAT(error([&](Context& c) {
                ops::rms_norm(c, pair.view.slice(0, 0, 4), six.view, kEpsilon, pair.view.slice(0, 1, 5));
              }),
              HasSubstr("rms_norm: operand y is F32 [4, 6] with strides [6, 1], expected no overlap with operand x"));
  const auto gated_add_norm = [&](const Tensor& gate, const TensorView& residual, const TensorView& to) {
    return error([&](Context& c) {
      ops::gated_add_norm_modulate(c, x.view, gate.view, residual, {six.view, six.view, kEpsilon}, to);
    });
  };
  const TensorView residual = random(DType::f32, {4, 6}).view;
  EXPECT_THAT(gated_add_norm(five, residual, y), HasSubstr("gated_add_norm_modulate: operand gate is F32 [5]"));
  EXPECT_THAT(gated_add_norm(six, pair.view, y), HasSubstr("operand residual is F32 [5, 6]"));
  EXPECT_THAT(gated_add_norm(six, x.view, y), HasSubstr("operand residual is F32 [4, 6]"));
  EXPECT_THAT(gated_add_norm(six, residual, residual), HasSubstr("no overlap with operand residual"));
  EXPECT_THAT(error([&](Context& c) { ops::rms_norm(c, x.view, five.view, kEpsilon, y); }),
              HasSubstr("operand weight is F32 [5]"));
}

INSTANTIATE_TEST_SUITE_P(Devices, NormTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
