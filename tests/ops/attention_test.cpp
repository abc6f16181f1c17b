#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ops::AttentionOptions;
using ::testing::HasSubstr;

struct Sizes {
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
};

class AttentionTest : public OpTest {
 protected:
  static double dot(const Tensor& a, std::int64_t token_a, std::int64_t head_a, const Tensor& b, std::int64_t token_b,
                    std::int64_t head_b) {
    const std::int64_t features = a.view.size(2);
    double sum = 0;
    for (std::int64_t i = 0; i < features; ++i) {
      sum += a.values[static_cast<std::size_t>((token_a * a.view.size(1) + head_a) * features + i)] *
             b.values[static_cast<std::size_t>((token_b * b.view.size(1) + head_b) * features + i)];
    }
    return sum;
  }

  /// Weights of the keys that one query sees.
  static Values weights(const Tensor& q, const Tensor& k, std::int64_t query, std::int64_t head,
                        const AttentionOptions& options) {
    const std::int64_t kv_head = head / (q.view.size(1) / k.view.size(1));
    std::int64_t visible = options.valid_keys.value_or(k.view.size(0));
    if (options.causal) visible = std::min(visible, query + 1);
    Values result;
    for (std::int64_t key = 0; key < visible; ++key) {
      result.push_back(static_cast<double>(options.scale) * dot(q, query, head, k, key, kv_head));
    }
    const double largest = *std::max_element(result.begin(), result.end());
    double sum = 0;
    for (double& weight : result) sum += weight = std::exp(weight - largest);
    for (double& weight : result) weight /= sum;
    return result;
  }

  static Values expected(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
    const std::int64_t features = q.view.size(2);
    Values out;
    for (std::int64_t query = 0; query < q.view.size(0); ++query) {
      for (std::int64_t head = 0; head < q.view.size(1); ++head) {
        const std::int64_t kv_head = head / (q.view.size(1) / k.view.size(1));
        const Values seen = weights(q, k, query, head, options);
        for (std::int64_t i = 0; i < features; ++i) {
          double sum = 0;
          for (std::size_t key = 0; key < seen.size(); ++key) {
            const std::int64_t row = static_cast<std::int64_t>(key) * v.view.size(1) + kv_head;
            sum += seen[key] * v.values[static_cast<std::size_t>(row * features + i)];
          }
          out.push_back(sum);
        }
      }
    }
    return out;
  }

  void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const AttentionOptions& options) {
    run({q, k, v, out},
        [&](auto& context, const auto& view) { ops::attention(context, view[0], view[1], view[2], view[3], options); });
    expect_close(read(out), expected(q, k, v, options));
  }

  void check(const Sizes& sizes, const AttentionOptions& options, const Shape& gaps = {}) {
    const Shape q_shape{sizes.queries, sizes.heads, sizes.head_dim};
    const Shape k_shape{sizes.keys, sizes.kv_heads, sizes.head_dim};
    check(random(q_shape, gaps), random(k_shape, gaps), random(k_shape, gaps), blank(q_shape, gaps), options);
  }
};

TEST_P(AttentionTest, MixesValuesOfOddShapes) {
  check({.queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_dim = 1}, {});
  check({.queries = 7, .keys = 9, .heads = 3, .kv_heads = 3, .head_dim = 5}, {.scale = 0.4F});
  check({.queries = 33, .keys = 65, .heads = 2, .kv_heads = 2, .head_dim = 32}, {.scale = 0.17F});
}

TEST_P(AttentionTest, TakesStridedTokensAndHeads) {
  check({.queries = 19, .keys = 21, .heads = 3, .kv_heads = 3, .head_dim = 16}, {.scale = 0.25F}, {1, 2, 3});
}

TEST_P(AttentionTest, TakesHeadsOfWideRows) {
  // As from a product's rows, on 16 bytes.
  check({.queries = 70, .keys = 133, .heads = 3, .kv_heads = 3, .head_dim = 64}, {.scale = 0.125F}, {0, 2, 0});
  check({.queries = 130, .keys = 130, .heads = 2, .kv_heads = 2, .head_dim = 128}, {.scale = 0.088F}, {0, 4, 0});
  check({.queries = 40, .keys = 40, .heads = 4, .kv_heads = 2, .head_dim = 128}, {.scale = 0.088F}, {0, 2, 0});
}

TEST_P(AttentionTest, TakesHeadsOfAnySize) {
  check({.queries = 66, .keys = 67, .heads = 2, .kv_heads = 1, .head_dim = 72}, {.scale = 0.1F});
  check({.queries = 20, .keys = 36, .heads = 2, .kv_heads = 2, .head_dim = 256}, {.scale = 0.06F});
  check({.queries = 20, .keys = 36, .heads = 1, .kv_heads = 1, .head_dim = 512}, {.scale = 0.04F});
  check({.queries = 20, .keys = 36, .heads = 6, .kv_heads = 2, .head_dim = 31}, {.scale = 0.18F, .causal = true},
        {0, 1, 2});
}

TEST_P(AttentionTest, SharesKeyHeadsAmongQueryHeads) {
  check({.queries = 10, .keys = 12, .heads = 6, .kv_heads = 2, .head_dim = 8}, {.scale = 0.3F}, {0, 1, 0});
}

TEST_P(AttentionTest, CausalQueriesSeeNoLaterKeys) {
  check({.queries = 17, .keys = 17, .heads = 2, .kv_heads = 1, .head_dim = 8}, {.scale = 0.5F, .causal = true});
  check({.queries = 5, .keys = 11, .heads = 1, .kv_heads = 1, .head_dim = 4}, {.causal = true});
  check({.queries = 11, .keys = 5, .heads = 1, .kv_heads = 1, .head_dim = 4}, {.causal = true});
}

TEST_P(AttentionTest, HidesKeysThatAreNotValid) {
  check({.queries = 9, .keys = 14, .heads = 2, .kv_heads = 2, .head_dim = 8}, {.scale = 0.5F, .valid_keys = 6});
  check({.queries = 9, .keys = 14, .heads = 2, .kv_heads = 2, .head_dim = 8}, {.valid_keys = 1});
  check({.queries = 14, .keys = 14, .heads = 4, .kv_heads = 2, .head_dim = 8},
        {.scale = 0.5F, .causal = true, .valid_keys = 6});
}

TEST_P(AttentionTest, InvalidKeysMayHoldNaN) {
  const Tensor q = random({4, 1, 8});
  Tensor k = random({6, 1, 8});
  Tensor v = random({6, 1, 8});
  const auto spoil = [](Values values) {
    std::fill(values.begin() + 3 * 8, values.end(), std::numeric_limits<double>::quiet_NaN());
    return values;
  };
  k = tensor(activations(), {6, 1, 8}, spoil(k.values));
  v = tensor(activations(), {6, 1, 8}, spoil(v.values));
  check(q, k, v, blank({4, 1, 8}), {.scale = 0.5F, .valid_keys = 3});
  check(q, k, v, blank({4, 1, 8}), {.scale = 0.5F, .causal = true, .valid_keys = 3});
}

TEST_P(AttentionTest, WorksInChunksOfQueries) {
  // On the CPU 4 MB of scores a head; and causal chunks of different numbers of keys.
  check({.queries = 1001, .keys = 1000, .heads = 2, .kv_heads = 2, .head_dim = 8}, {.scale = 0.35F});
  check({.queries = 301, .keys = 301, .heads = 2, .kv_heads = 1, .head_dim = 8}, {.scale = 0.35F, .causal = true});
  check({.queries = 301, .keys = 301, .heads = 1, .kv_heads = 1, .head_dim = 8}, {.causal = true, .valid_keys = 140});
  check({.queries = 1100, .keys = 1100, .heads = 2, .kv_heads = 1, .head_dim = 8}, {.scale = 0.35F, .causal = true});
}

TEST_P(AttentionTest, GivesTheSameBytesAgainAtAnyAddress) {
  for (const bool causal : {false, true}) {
    const Tensor q = random({140, 4, 64});
    const Tensor k = random({140, 2, 64});
    const Tensor v = random({140, 2, 64});
    const AttentionOptions options{.scale = 0.125F, .causal = causal};
    const auto mix = [&] {
      const Tensor out = blank({140, 4, 64});
      run({another(q), another(k), another(v), out}, [&](auto& context, const auto& view) {
        ops::attention(context, view[0], view[1], view[2], view[3], options);
      });
      return read(out);
    };
    const Values first = mix();
    expect_close(first, expected(q, k, v, options));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(mix(), first);
  }
}

TEST_P(AttentionTest, SurvivesScoresBeyondTheRangeOfExp) {
  // Integers, so that scores of several thousands are exact in f32 and only the softmax is on trial.
  const auto integers = [&](const Shape& shape) {
    Values values = random(activations(), shape, {}, 0, 20).values;
    std::transform(values.begin(), values.end(), values.begin(), [](double value) { return std::round(value); });
    return tensor(activations(), shape, values);
  };
  check(integers({20, 2, 16}), integers({30, 2, 16}), random({30, 2, 16}), blank({20, 2, 16}), {.scale = 1.0F});
}

TEST_P(AttentionTest, NeverHoldsTheScoresOfAllTokens) {
  const auto scratch_bytes = [&](const Shape& shape, const AttentionOptions& options) {
    const ConstTensorView q(nullptr, activations(), shape);
    const TensorView out(nullptr, activations(), shape);
    ops::OpContext context = ops::OpContext::planning(*stream_);
    ops::attention(context, q, q, q, out, options);
    return context.peak_bytes();
  };
  const std::size_t most = (on_cpu() ? 4 : 290) * kMiB;
  EXPECT_LE(scratch_bytes({4608, 24, 128}, {}), most);  // one head's scores would be 81 MiB, all of them 1944 MiB
  EXPECT_LE(scratch_bytes({4608, 24, 128}, {.causal = true}), most);
  if (!on_cpu()) {
    EXPECT_LE(scratch_bytes({65536, 1, 512}, {}), most);  // 16 GiB
  }
}

TEST_P(AttentionTest, RefusesOperandsThatDoNotFit) {
  const auto random_f32 = [&](const Shape& shape) { return random(DType::f32, shape); };
  const Tensor q = random_f32({4, 6, 8});
  const Tensor k = random_f32({5, 3, 8});
  const Tensor out = blank({4, 6, 8}, {}, DType::f32);
  const auto error = [&](const ConstTensorView& q_view, const ConstTensorView& k_view, const ConstTensorView& v_view,
                         const TensorView& out_view, const AttentionOptions& options = {}) {
    const Error thrown = catch_error(
        [&] { plan([&](auto& context) { ops::attention(context, q_view, k_view, v_view, out_view, options); }); });
    EXPECT_EQ(thrown.code(), ErrorCode::internal);
    return thrown.message();
  };

  EXPECT_THAT(error(q.view, random_f32({5, 3, 7}).view, k.view, out.view), HasSubstr("attention: operand k is F32"));
  EXPECT_THAT(error(q.view, k.view, random_f32({4, 3, 8}).view, out.view), HasSubstr("operand v is F32 [4, 3, 8]"));
  EXPECT_THAT(error(q.view, k.view, k.view, blank({5, 6, 8}, {}, DType::f32).view),
              HasSubstr("operand out is F32 [5, 6, 8]"));
  EXPECT_THAT(error(q.view, k.view, k.view, q.view), HasSubstr("no overlap with operand q"));
  EXPECT_THAT(error(q.view, random_f32({5, 4, 8}).view, random_f32({5, 4, 8}).view, out.view), HasSubstr("multiple"));
  EXPECT_THAT(error(q.view, k.view, k.view, out.view, {.valid_keys = 0}), HasSubstr("0 valid keys"));
  EXPECT_THAT(error(q.view, k.view, k.view, out.view, {.valid_keys = 6}), HasSubstr("6 valid keys"));
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
