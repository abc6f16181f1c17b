#include <cmath>
#include <cstdint>

#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/rows.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

/// Rotates the normalised head in place: pair j is (first, second) = (x[2j], x[2j + 1]) or (x[j], x[j + half]).
template <RopePairs pairs>
void rotate(float* x, const float* cos, const float* sin, std::int64_t half) {
  constexpr bool kInterleaved = pairs == RopePairs::interleaved;
  for (std::int64_t j = 0; j < half; ++j) {
    float& first = x[kInterleaved ? 2 * j : j];
    float& second = x[kInterleaved ? 2 * j + 1 : j + half];
    const float a = first;
    const float b = second;
    first = a * cos[j] - b * sin[j];
    second = b * cos[j] + a * sin[j];
  }
}

template <RopePairs pairs>
void normalise_and_rotate(const TensorView& x, const float* weight, const float* cos, const float* sin, float epsilon) {
  const std::int64_t features = x.size(2);
  const std::int64_t half = features / 2;
  for (std::int64_t token = 0; token < x.size(0); ++token, cos += half, sin += half) {
    for (std::int64_t head = 0; head < x.size(1); ++head) {
      float* values = x.as<float>() + token * x.stride(0) + head * x.stride(1);
      const float squares = interleaved_sum(features, [&](std::int64_t i) { return values[i] * values[i]; });
      const float factor = 1.0F / std::sqrt(squares / static_cast<float>(features) + epsilon);
      for (std::int64_t i = 0; i < features; ++i) values[i] *= factor * weight[i];
      rotate<pairs>(values, cos, sin, half);
    }
  }
}

}  // namespace

void qk_norm_rope(OpContext& context, const TensorView& q, const TensorView& k, const QkNorm& norm,
                  const Rotation& rotation) {
  const auto weight_bytes = static_cast<std::size_t>(q.size(2)) * sizeof(float);
  Scratch scratch;
  const std::size_t q_weight = scratch.add(weight_bytes);
  const std::size_t k_weight = scratch.add(weight_bytes);
  scratch.obtain(context);

  cpu_launch(context, "qk_norm_rope", {q, k, norm.q, norm.k, rotation.cos, rotation.sin}, {q, k}, scratch.range(), [=] {
    widen(norm.q, scratch.floats(q_weight));
    widen(norm.k, scratch.floats(k_weight));
    const auto run = rotation.pairs == RopePairs::interleaved ? normalise_and_rotate<RopePairs::interleaved>
                                                              : normalise_and_rotate<RopePairs::half_split>;
    const auto* cos = rotation.cos.as<float>();
    const auto* sin = rotation.sin.as<float>();
    run(q, scratch.floats(q_weight), cos, sin, norm.epsilon);
    run(k, scratch.floats(k_weight), cos, sin, norm.epsilon);
  });
}

}  // namespace lamina::ops::cpu
