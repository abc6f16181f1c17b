#include <algorithm>
#include <cstdint>

#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/rows.h"

namespace lamina::ops::cpu {

void add(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cpu_launch(context, "add", {x, y}, {y}, {}, [=] {
    const Rows<const float> from = rows_of(x);
    const Rows<float> to = rows_of(y);
    for (std::int64_t row = 0; row < to.count; ++row) {
      for (std::int64_t i = 0; i < to.features; ++i) to[row][i] += from[row][i];
    }
  });
}

void gated_add(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate, const TensorView& y) {
  cpu_launch(context, "gated_add", {x, gate, y}, {y}, {}, [=] {
    const Rows<const float> from = rows_of(x);
    const Rows<float> to = rows_of(y);
    for (std::int64_t row = 0; row < to.count; ++row) add_gated(from[row], gate.as<float>(), to.features, to[row]);
  });
}

void cast(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cpu_launch(context, "cast", {x}, {y}, {}, [=] {
    const std::int64_t count = x.shape().elements();
    if (x.dtype() == y.dtype()) {
      std::copy_n(x.data(), x.span_bytes(), y.data());
    } else if (y.dtype() == DType::f32) {
      widen(x, y.as<float>());
    } else {
      std::transform(x.as<float>(), x.as<float>() + count, y.as<std::uint16_t>(), narrow);
    }
  });
}

void guide(OpContext& context, const ConstTensorView& conditional, const ConstTensorView& unconditional, float scale,
           const TensorView& velocity) {
  cpu_launch(context, "guide", {conditional, unconditional}, {velocity}, {}, [=] {
    const Rows<const float> with = rows_of(conditional);
    const Rows<const float> without = rows_of(unconditional);
    const Rows<float> to = rows_of(velocity);
    for (std::int64_t row = 0; row < to.count; ++row) {
      for (std::int64_t i = 0; i < to.features; ++i) {
        to[row][i] = without[row][i] + scale * (with[row][i] - without[row][i]);
      }
    }
  });
}

void euler_step(OpContext& context, const ConstTensorView& velocity, float step, const TensorView& latents) {
  cpu_launch(context, "euler_step", {velocity, latents}, {latents}, {}, [=] {
    const Rows<const float> from = rows_of(velocity);
    const Rows<float> to = rows_of(latents);
    for (std::int64_t row = 0; row < to.count; ++row) {
      for (std::int64_t i = 0; i < to.features; ++i) to[row][i] += step * from[row][i];
    }
  });
}

}  // namespace lamina::ops::cpu
