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

void qk_norm_rope(OpContext& context, const TensorView& x, const ConstTensorView& weight, const ConstTensorView& cos,
                  const ConstTensorView& sin, RopePairs pairs, float epsilon) {
  Scratch scratch;
  const std::size_t widened = scratch.add(static_cast<std::size_t>(x.size(2)) * sizeof(float));
  scratch.obtain(context);

  cpu_launch(context, "qk_norm_rope", {x, weight, cos, sin}, {x}, scratch.range(), [=] {
    widen(weight, scratch.floats(widened));
    const auto run = pairs == RopePairs::interleaved ? normalise_and_rotate<RopePairs::interleaved>
                                                     : normalise_and_rotate<RopePairs::half_split>;
    run(x, scratch.floats(widened), cos.as<float>(), sin.as<float>(), epsilon);
  });
}

}  // namespace lamina::ops::cpu
