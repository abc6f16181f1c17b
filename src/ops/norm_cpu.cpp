#include <cmath>
#include <cstdint>

#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/rows.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

void normalise_layer(const float* x, const float* scale, const float* shift, std::int64_t features, float epsilon,
                     float* y) {
  const auto count = static_cast<float>(features);
  const float mean = interleaved_sum(features, [&](std::int64_t i) { return x[i]; }) / count;
  const float variance =
      interleaved_sum(features, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
  const float factor = 1.0F / std::sqrt(variance + epsilon);
  for (std::int64_t i = 0; i < features; ++i) y[i] = (x[i] - mean) * factor * (1.0F + scale[i]) + shift[i];
}

void normalise_root_mean_square(const float* x, const float* weight, std::int64_t features, float epsilon, float* y) {
  const float squares = interleaved_sum(features, [&](std::int64_t i) { return x[i] * x[i]; });
  const float factor = 1.0F / std::sqrt(squares / static_cast<float>(features) + epsilon);
  for (std::int64_t i = 0; i < features; ++i) y[i] = x[i] * factor * weight[i];
}

}  // namespace

void layer_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& scale,
                         const ConstTensorView& shift, float epsilon, const TensorView& y) {
  cpu_launch(context, "layer_norm_modulate", {x, scale, shift}, {y}, {}, [=] {
    const Rows<const float> from = rows_of(x);
    const Rows<float> to = rows_of(y);
    for (std::int64_t row = 0; row < from.count; ++row) {
      normalise_layer(from[row], scale.as<float>(), shift.as<float>(), from.features, epsilon, to[row]);
    }
  });
}

void gated_add_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate,
                             const TensorView& residual, const Modulation& modulation, const TensorView& y) {
  cpu_launch(context, "gated_add_norm_modulate", {x, gate, residual, modulation.scale, modulation.shift}, {residual, y},
             {}, [=] {
               const Rows<const float> from = rows_of(x);
               const Rows<float> sum = rows_of(residual);
               const Rows<float> to = rows_of(y);
               const auto* scale = modulation.scale.as<float>();
               const auto* shift = modulation.shift.as<float>();
               for (std::int64_t row = 0; row < from.count; ++row) {
                 add_gated(from[row], gate.as<float>(), from.features, sum[row]);
                 normalise_layer(sum[row], scale, shift, from.features, modulation.epsilon, to[row]);
               }
             });
}

void rms_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
              const TensorView& y) {
  Scratch scratch;
  const std::size_t widened = scratch.add(static_cast<std::size_t>(x.size(1)) * sizeof(float));
  scratch.obtain(context);

  cpu_launch(context, "rms_norm", {x, weight}, {y}, scratch.range(), [=] {
    widen(weight, scratch.floats(widened));
    const Rows<const float> from = rows_of(x);
    const Rows<float> to = rows_of(y);
    for (std::int64_t row = 0; row < from.count; ++row) {
      normalise_root_mean_square(from[row], scratch.floats(widened), from.features, epsilon, to[row]);
    }
  });
}

}  // namespace lamina::ops::cpu
