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

  void check(const Tensor& x, DType weights, RopePairs pairs) {
    const Angles rotation = angles(x.view.size(0), x.view.size(2) / 2);
    const Tensor weight = random(weights, {x.view.size(2)});
    run({x, weight, rotation.cos, rotation.sin},
        [&](auto& context, const auto& v) { ops::qk_norm_rope(context, v[0], v[1], v[2], v[3], pairs, kEpsilon); });
    expect_close(read(x), expected(x, weight, rotation, pairs));
  }
};

TEST_P(QkNormRopeTest, NormalisesAndRotatesBothKindsOfPairs) {
  for (const RopePairs pairs : {RopePairs::interleaved, RopePairs::half_split}) {
    for (const std::int64_t head_dim : {2, 6, 32, 36}) {
      SCOPED_TRACE(head_dim);
      check(random({5, 3, head_dim}), DType::f32, pairs);
      check(random({5, 3, head_dim}), DType::bf16, pairs);
    }
  }
}

TEST_P(QkNormRopeTest, LeavesWhatLiesBetweenStridedHeadsAlone) {
  check(random({7, 3, 16}, {1, 2, 0}), DType::bf16, RopePairs::interleaved);
  check(random({7, 3, 16}, {1, 2, 5}), DType::bf16, RopePairs::half_split);
}

TEST_P(QkNormRopeTest, RefusesOperandsThatDoNotFit) {
  const auto error = [&](const Shape& x, const Shape& weight, const Shape& cos, const Shape& sin) {
    const Error thrown = catch_error([&] {
      plan([&](auto& context) {
        ops::qk_norm_rope(context, random(x).view, random(weight).view, random(cos).view, random(sin).view,
                          RopePairs::interleaved, kEpsilon);
      });
    });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };
  EXPECT_THAT(error({4, 2, 5}, {5}, {4, 2}, {4, 2}), HasSubstr("qk_norm_rope: x [4, 2, 5] has an odd number"));
  EXPECT_THAT(error({4, 2, 6}, {5}, {4, 3}, {4, 3}), HasSubstr("operand weight is F32 [5]"));
  EXPECT_THAT(error({4, 2, 6}, {6}, {3, 3}, {4, 3}), HasSubstr("operand cos is F32 [3, 3]"));
  EXPECT_THAT(error({4, 2, 6}, {6}, {4, 3}, {4, 6}), HasSubstr("operand sin is F32 [4, 6]"));
  EXPECT_THAT(error({4, 6}, {6}, {4, 3}, {4, 3}), HasSubstr("rank 3"));
}

INSTANTIATE_TEST_SUITE_P(Devices, QkNormRopeTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
