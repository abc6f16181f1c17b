#include "op_test.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/norm.h"
#include "ops/qk_norm_rope.h"

namespace lamina::testing {
namespace {

constexpr float kEpsilon = 1e-6F;
constexpr int kRuns = 20;

/// The same operands give the same bytes, however the work was spread.
class RepeatTest : public OpTest {
 protected:
  /// `results` are what the operation writes, by their places in `operands`.
  void check(const std::vector<Tensor>& operands, const std::vector<std::size_t>& results, const Operation& operation) {
    std::vector<Values> first;
    for (int i = 0; i < kRuns; ++i) {
      std::vector<Tensor> copies;
      for (const Tensor& operand : operands) copies.push_back(another(operand));
      run(copies, operation);
      std::vector<Values> now;
      for (const std::size_t result : results) now.push_back(read(copies[result]));
      if (i == 0) first = now;
      ASSERT_EQ(now, first) << "run " << i;
    }
  }
};

TEST_P(RepeatTest, LayerNorms) {
  const Tensor vector = random({4096});
  check({random({40, 4096}), vector, vector, blank({40, 4096})}, {3},
        [](auto& context, const auto& v) { ops::layer_norm_modulate(context, v[0], v[1], v[2], kEpsilon, v[3]); });
  check({random({40, 4096}), vector, random({40, 4096}), vector, vector, blank({40, 4096})}, {2, 5},
        [](auto& context, const auto& v) {
          ops::gated_add_norm_modulate(context, v[0], v[1], v[2], {v[3], v[4], kEpsilon}, v[5]);
        });
}

TEST_P(RepeatTest, RmsNorms) {
  check({random({40, 4096}), random({4096}), blank({40, 4096})}, {2},
        [](auto& context, const auto& v) { ops::rms_norm(context, v[0], v[1], kEpsilon, v[2]); });
  const Tensor heads = random({12, 32, 128});
  const Tensor angles = random(DType::f32, {12, 64});
  check({heads, heads, random({128}), random({128}), angles, angles}, {0, 1}, [](auto& context, const auto& v) {
    ops::qk_norm_rope(context, v[0], v[1], {v[2], v[3], kEpsilon}, {v[4], v[5]});
  });
}

TEST_P(RepeatTest, GroupNorms) {
  const Shape image{50, 48, 64};
  const Tensor normalisation = random(DType::f32, {3, 64});
  check({random(image), normalisation, blank(image)}, {2}, [](auto& context, const auto& v) {
    ops::normalise_channels(context, v[0], v[1], ops::Activation::silu, v[2]);
  });
  const Tensor moments = blank({2, 64}, {}, DType::f64);
  check({random(image), moments, random({64}), random({64}), normalisation}, {4}, [](auto& context, const auto& v) {
    ops::channel_moments(context, v[0], v[1]);
    ops::group_normalisation(context, v[1].reshape({1, 2, 64}), 50 * 48, v[2], v[3], {32, kEpsilon}, v[4]);
  });
}

TEST_P(RepeatTest, ElementwiseOperations) {
  check({random({40, 2048}), random({40, 2048}), blank({40, 2048})}, {2},
        [](auto& context, const auto& v) { ops::silu_mul(context, v[0], v[1], v[2]); });
}

INSTANTIATE_TEST_SUITE_P(Devices, RepeatTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
