#include "ops/norm.h"

#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void layer_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& scale,
                         const ConstTensorView& shift, float epsilon, const TensorView& y) {
  const Operand input("layer_norm_modulate", "x", x);
  const Operand scales("layer_norm_modulate", "scale", scale);
  const Operand shifts("layer_norm_modulate", "shift", shift);
  input.activation(context).rank(2).rows();
  scales.like(input).shape({x.size(1)}).contiguous();
  shifts.like(input).shape({x.size(1)}).contiguous();
  Operand("layer_norm_modulate", "y", y)
      .like(input)
      .shape(x.shape())
      .rows()
      .same_or_apart_from(input)
      .apart_from(scales)
      .apart_from(shifts);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::layer_norm_modulate(context, x, scale, shift, epsilon, y);
    case DeviceKind::cuda: return cuda::layer_norm_modulate(context, x, scale, shift, epsilon, y);
  }
}

void rms_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
              const TensorView& y) {
  const Operand input("rms_norm", "x", x);
  input.activation(context).rank(2).rows();
  Operand("rms_norm", "weight", weight).f32_or_bf16().shape({x.size(1)}).contiguous();
  Operand("rms_norm", "y", y).like(input).shape(x.shape()).rows().same_or_apart_from(input);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::rms_norm(context, x, weight, epsilon, y);
    case DeviceKind::cuda: return cuda::rms_norm(context, x, weight, epsilon, y);
  }
}

}  // namespace lamina::ops
