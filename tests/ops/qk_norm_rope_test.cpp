#include "ops/qk_norm_rope.h"

#include <cmath>
#include <complex>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ops::RopePairs;
using ::testing::HasSubstr;

constexpr float kEpsilon = 0.125F;  // large enough to count

class QkNormRopeTest : public OpTest {
 protected:
  /// Rotations of unit length, as cosine and sine tables have them.
  struct Angles {
    Tensor cos;
    Tensor sin;
  };

  Angles angles(std::int64_t tokens, std::int64_t half) {
    Values cosines;
    Values sines;
    for (const double angle : random(DType::f32, {tokens, half}, {}, 0, 3).values) {
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    return {tensor(DType::f32, {tokens, half}, cosines), tensor(DType::f32, {tokens, half}, sines)};
  }

  /// Pair by pair as complex numbers.
  static Values expected(const Tensor& x, const Tensor& weight, const Angles& angles, RopePairs pairs) {
    const auto features = static_cast<std::size_t>(x.view.size(2));
    const auto heads = static_cast<std::size_t>(x.view.size(1));
    const std::size_t half = features / 2;
    Values y(x.values.size());
    for (std::size_t row = 0; row < x.values.size() / features; ++row) {
      const std::size_t token = row / heads;
      double squares = 0;
      for (std::size_t i = 0; i < features; ++i) squares += std::pow(x.values[row * features + i], 2);
      const double factor = 1 / std::sqrt(squares / static_cast<double>(features) + static_cast<double>(kEpsilon));
      for (std::size_t j = 0; j < half; ++j) {
        const std::size_t first = pairs == RopePairs::interleaved ? 2 * j : j;
        const std::size_t second = pairs == RopePairs::interleaved ? 2 * j + 1 : j + half;
        const std::complex<double> pair(x.values[row * features + first] * factor * weight.values[first],
                                        x.values[row * features + second] * factor * weight.values[second]);
        const std::complex<double> rotation(angles.cos.values[token * half + j], angles.sin.values[token * half + j]);
        y[row * features + first] = (pair * rotation).real();
        y[row * features + second] = (pair * rotation).imag();
      }
    }
    return y;
  }

  void check(const Tensor& q, const Tensor& k, DType weights, RopePairs pairs) {
    const Angles rotation = angles(q.view.size(0), q.view.size(2) / 2);
    const Tensor q_weight = random(weights, {q.view.size(2)});
    const Tensor k_weight = random(weights, {q.view.size(2)});
    run({q, k, q_weight, k_weight, rotation.cos, rotation.sin}, [&](auto& context, const auto& v) {
      ops::qk_norm_rope(context, v[0], v[1], {v[2], v[3], kEpsilon}, {v[4], v[5], pairs});
    });
    expect_close(read(q), expected(q, q_weight, rotation, pairs));
    expect_close(read(k), expected(k, k_weight, rotation, pairs));
  }
};

TEST_P(QkNormRopeTest, NormalisesAndRotatesBothKindsOfPairs) {
  for (const RopePairs pairs : {RopePairs::interleaved, RopePairs::half_split}) {
    for (const std::int64_t head_dim : {2, 6, 32, 36, 128, 200, 264, 512}) {
      for (const DType weights : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(head_dim);
        check(random({5, 3, head_dim}), random({5, 3, head_dim}), weights, pairs);
      }
    }
  }
}

TEST_P(QkNormRopeTest, TakesFewerKeyHeadsThanQueryHeads) {
  check(random({3, 8, 32}), random({3, 2, 32}), DType::bf16, RopePairs::half_split);
  check(random({2, 1, 128}), random({2, 70, 128}), DType::bf16, RopePairs::interleaved);
}

TEST_P(QkNormRopeTest, LeavesWhatLiesBetweenStridedHeadsAlone) {
  check(random({7, 3, 16}, {1, 2, 0}), random({7, 3, 16}), DType::bf16, RopePairs::interleaved);
  check(random({7, 3, 16}, {1, 2, 5}), random({7, 2, 16}, {0, 0, 3}), DType::bf16, RopePairs::half_split);
  check(random({7, 3, 64}, {1, 2, 16}), random({7, 3, 64}, {0, 2, 0}), DType::f32, RopePairs::half_split);
}

TEST_P(QkNormRopeTest, TakesAdjacentHeadsOfOneTensor) {
  const Tensor qkv = random({4, 9, 16});
  const Angles rotation = angles(4, 8);
  const Tensor weight = random(DType::f32, {16});
  run({qkv, weight, rotation.cos, rotation.sin}, [](auto& context, const auto& v) {
    ops::qk_norm_rope(context, v[0].slice(1, 0, 3), v[0].slice(1, 3, 6), {v[1], v[1], kEpsilon}, {v[2], v[3]});
  });
  const Values turned = expected(qkv, weight, rotation, RopePairs::interleaved);
  Values wanted = qkv.values;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i / 16 % 9 < 6) wanted[i] = turned[i];
  }
  expect_close(read(qkv), wanted);
}

TEST_P(QkNormRopeTest, RefusesOperandsThatDoNotFit) {
  struct Shapes {
    Shape q{4, 2, 6};
    Shape k{4, 3, 6};
    Shape q_weight{6};
    Shape k_weight{6};
    Shape cos{4, 3};
    Shape sin{4, 3};
  };
  const auto f32 = [&](const Shape& shape) { return random(DType::f32, shape).view; };
  const auto error = [&](const Shapes& of) {
    const Error thrown = catch_error([&] {
      plan([&](auto& context) {
        ops::qk_norm_rope(context, f32(of.q), f32(of.k), {f32(of.q_weight), f32(of.k_weight), kEpsilon},
                          {f32(of.cos), f32(of.sin)});
      });
    });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  EXPECT_THAT(error({.q = {4, 2, 5}, .k = {4, 2, 5}}), HasSubstr("qk_norm_rope: q [4, 2, 5] has an odd number"));
  EXPECT_THAT(error({.q = {4, 6}}), HasSubstr("rank 3"));
  EXPECT_THAT(error({.k = {5, 3, 6}}), HasSubstr("operand k is F32 [5, 3, 6]"));
  EXPECT_THAT(error({.k = {4, 3, 8}}), HasSubstr("operand k is F32 [4, 3, 8]"));
  EXPECT_THAT(error({.q_weight = {5}}), HasSubstr("operand q's weight is F32 [5]"));
  EXPECT_THAT(error({.k_weight = {5}}), HasSubstr("operand k's weight is F32 [5]"));
  EXPECT_THAT(error({.cos = {3, 3}}), HasSubstr("operand cos is F32 [3, 3]"));
  EXPECT_THAT(error({.sin = {4, 6}}), HasSubstr("operand sin is F32 [4, 6]"));

  const TensorView both = f32({4, 4, 6});
  EXPECT_THAT(catch_error([&] {
                plan([&](auto& context) {
                  ops::qk_norm_rope(context, both.slice(1, 0, 3), both.slice(1, 2, 4), {f32({6}), f32({6}), kEpsilon},
                                    {f32({4, 3}), f32({4, 3})});
                });
              }).message(),
              HasSubstr("no overlap with operand q"));
}

INSTANTIATE_TEST_SUITE_P(Devices, QkNormRopeTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
