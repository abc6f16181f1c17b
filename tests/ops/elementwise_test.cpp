#include "ops/elementwise.h"

#include <cmath>
#include <functional>
#include <limits>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class ElementwiseTest : public OpTest {
 protected:
  static Values map(const Values& a, const Values& b, const std::function<double(double, double)>& f) {
    Values result;
    for (std::size_t i = 0; i < a.size(); ++i) result.push_back(f(a[i], b[i]));
    return result;
  }

  static double silu(double x) { return x / (1 + std::exp(-x)); }

  static Values silu_mul(const Tensor& gate, const Tensor& up) {
    return map(gate.values, up.values, [](double g, double u) { return silu(g) * u; });
  }

  void run_silu_mul(const Tensor& gate, const Tensor& up, const Tensor& y) {
    run({gate, up, y}, [](auto& context, const auto& v) { ops::silu_mul(context, v[0], v[1], v[2]); });
  }
};

TEST_P(ElementwiseTest, SiluOfOddAndStridedShapes) {
  for (const auto& [shape, gaps] : {std::pair<Shape, Shape>{{1, 1}, {}},
                                    {{3, 7}, {}},
                                    {{5, 33}, {1, 4}},
                                    {{37, 512}, {}},
                                    {{19, 24}, {2, 16}},
                                    {{6, 2056}, {0, 16}}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = random(activations(), shape, gaps, 0, 4);
    const Tensor y = blank(shape, gaps);
    run({x, y}, [](auto& context, const auto& v) { ops::silu(context, v[0], v[1]); });
    expect_close(read(y), map(x.values, x.values, [](double value, double) { return silu(value); }));
  }
}

TEST_P(ElementwiseTest, SiluRunsInPlaceAndFarFromZero) {
  const Tensor x = tensor(activations(), {1, 8}, {-1000, -90, -20, -0.0, 1e-30, 20, 90, 1000});
  run({x}, [](auto& context, const auto& v) { ops::silu(context, v[0], v[0]); });
  const Values y = read(x);
  expect_close(y, map(x.values, x.values, [](double value, double) { return silu(value); }));
  EXPECT_NEAR(y[0], 0, 1e-30);
  EXPECT_NEAR(y[2], silu(-20), GetParam().tolerance * std::abs(silu(-20)));
}

TEST_P(ElementwiseTest, SiluMulWorksInChunksOfStridedRows) {
  const Tensor gate = random({301, 480}, {0, 11});
  const Tensor up = random({301, 480}, {0, 6});
  const Tensor y = blank({301, 480}, {1, 3});
  run_silu_mul(gate, up, y);
  expect_close(read(y), silu_mul(gate, up));
}

TEST_P(ElementwiseTest, SiluMulWritesOntoEitherFactor) {
  const Tensor gate = random({300, 500}, {0, 5});
  const Tensor up = random({300, 500}, {0, 5});
  run_silu_mul(gate, up, gate);
  expect_close(read(gate), silu_mul(gate, up));

  const Tensor other_gate = random({300, 500}, {0, 5});
  run_silu_mul(other_gate, up, up);
  expect_close(read(up), silu_mul(other_gate, up));
}

TEST_P(ElementwiseTest, Adds) {
  const Tensor x = random({6, 37}, {0, 2});
  const Tensor y = random({6, 37}, {1, 0});
  run({x, y}, [](auto& context, const auto& v) { ops::add(context, v[0], v[1]); });
  expect_close(read(y), map(x.values, y.values, std::plus<>()));
}

TEST_P(ElementwiseTest, AddsGated) {
  for (const auto& [shape, gaps] : {std::pair<Shape, Shape>{{6, 37}, {0, 2}}, {{21, 64}, {0, 16}}, {{9, 1032}, {}}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = random(shape, gaps);
    const Tensor gate = random({shape[1]});
    const Tensor y = random(shape, {1, 0});
    run({x, gate, y}, [](auto& context, const auto& v) { ops::gated_add(context, v[0], v[1], v[2]); });
    Values expected = y.values;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += gate.values[i % gate.values.size()] * x.values[i];
    expect_close(read(y), expected);
  }
}

TEST_P(ElementwiseTest, GuidesOntoEitherVelocity) {
  for (const bool onto_conditional : {true, false}) {
    const Tensor with = random({9, 21});
    const Tensor without = random({9, 21});
    const Tensor& onto = onto_conditional ? with : without;
    run({with, without, onto}, [](auto& context, const auto& v) { ops::guide(context, v[0], v[1], 4.0F, v[2]); });
    expect_close(read(onto), map(with.values, without.values, [](double c, double u) { return u + 4 * (c - u); }));
  }
}

TEST_P(ElementwiseTest, StepsLatents) {
  const Tensor velocity = random({9, 21}, {0, 3});
  const Tensor latents = random({9, 21});
  run({velocity, latents}, [](auto& context, const auto& v) { ops::euler_step(context, v[0], -0.125F, v[1]); });
  expect_close(read(latents), map(velocity.values, latents.values, [](double v, double l) { return l - 0.125 * v; }));
}

TEST_P(ElementwiseTest, CastsToTheNearestBf16TiesToEven) {
  const double inf = std::numeric_limits<double>::infinity();
  const double unit = std::ldexp(1, -7);  // between neighbours of 1 in bf16
  const Values from{0,   -1,   1 + unit / 2, 1 + 1.5 * unit, 1 + 0.51 * unit, -(1 + unit / 2), 3.4028235e38,
                    inf, -inf, 1e-40};
  const Values to{0, -1, 1, 1 + 2 * unit, 1 + unit, -1, inf, inf, -inf, std::ldexp(1, -133)};
  const Tensor x = tensor(DType::f32, {static_cast<std::int64_t>(from.size())}, from);
  const Tensor y = blank({static_cast<std::int64_t>(from.size())}, {}, DType::bf16);
  run({x, y}, [](auto& context, const auto& v) { ops::cast(context, v[0], v[1]); });
  Values expected = to;
  expected.back() = std::round(1e-40 / std::ldexp(1, -133)) * std::ldexp(1, -133);
  EXPECT_EQ(read(y), expected);
}

TEST_P(ElementwiseTest, CastKeepsNaN) {
  const Tensor x = tensor(DType::f32, {2}, {std::nan(""), -std::nan("")});
  const Tensor y = tensor(DType::bf16, {2}, {0, 0});
  run({x, y}, [](auto& context, const auto& v) { ops::cast(context, v[0], v[1]); });
  EXPECT_TRUE(std::isnan(read(y)[0]) && std::isnan(read(y)[1]));
}

TEST_P(ElementwiseTest, CastsAnyRankAndCopiesEqualTypes) {
  for (const Shape& shape : {Shape{3, 1, 5, 7}, Shape{2, 3, 4, 50}}) {
    const Tensor x = random(DType::bf16, shape);
    for (const DType from : {DType::f32, DType::bf16}) {
      const Tensor source = tensor(from, shape, x.values);
      for (const DType to : {DType::f32, DType::bf16}) {
        const Tensor y = blank(shape, {}, to);
        run({source, y}, [](auto& context, const auto& v) { ops::cast(context, v[0], v[1]); });
        EXPECT_EQ(read(y), x.values);
      }
    }
  }
}

TEST_P(ElementwiseTest, RefusesOperandsThatDoNotFit) {
  const Tensor a = random(DType::f32, {4, 6});
  const Tensor b = random(DType::f32, {4, 5});
  const auto error = [&](const auto& operation) {
    const Error thrown = catch_error([&] { plan(operation); });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  using Context = ops::OpContext;
  EXPECT_THAT(error([&](Context& c) { ops::silu(c, a.view, b.view); }), HasSubstr("silu: operand y is F32 [4, 5]"));
  EXPECT_THAT(error([&](Context& c) { ops::silu_mul(c, a.view, b.view, a.view); }),
              HasSubstr("silu_mul: operand y is F32 [4, 6]"));
  EXPECT_THAT(error([&](Context& c) { ops::add(c, a.view, b.view); }), HasSubstr("add: operand y is F32 [4, 5]"));
  EXPECT_THAT(error([&](Context& c) { ops::gated_add(c, b.view, random(DType::f32, {6}).view, b.view); }),
              HasSubstr("gated_add: operand gate is F32 [6]"));
  EXPECT_THAT(error([&](Context& c) { ops::guide(c, a.view, b.view, 1, a.view); }),
              HasSubstr("guide: operand velocity is F32 [4, 6]"));
  EXPECT_THAT(error([&](Context& c) { ops::euler_step(c, a.view, 1, b.view); }),
              HasSubstr("euler_step: operand latents is F32 [4, 5]"));
  EXPECT_THAT(error([&](Context& c) { ops::cast(c, a.view, b.view); }), HasSubstr("cast: operand y is F32 [4, 5]"));

  const TensorView f16(nullptr, DType::f16, {4, 6});
  const Error lacking = catch_error([&] { plan([&](Context& c) { ops::cast(c, a.view, f16); }); });
  EXPECT_EQ(lacking.code(), ErrorCode::not_implemented);
  EXPECT_THAT(lacking.message(), HasSubstr("F16"));
}

INSTANTIATE_TEST_SUITE_P(Devices, ElementwiseTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
