#include "ops/norm.h"

#include <string_view>

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

void gated_add_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate,
                             const TensorView& residual, const Modulation& modulation, const TensorView& y) {
  constexpr std::string_view kName = "gated_add_norm_modulate";
  const Operand input(kName, "x", x);
  const Operand gates(kName, "gate", gate);
  const Operand sum(kName, "residual", residual);
  const Operand scales(kName, "scale", modulation.scale);
  const Operand shifts(kName, "shift", modulation.shift);
  const Operand result(kName, "y", y);
  input.activation(context).rank(2).rows();
  for (const Operand& vector : {gates, scales, shifts}) vector.like(input).shape({x.size(1)}).contiguous();
  for (const Operand& rows : {sum, result}) {
    rows.like(input).shape(x.shape()).rows();
    for (const Operand& other : {input, gates, scales, shifts}) rows.apart_from(other);
  }
  result.apart_from(sum);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::gated_add_norm_modulate(context, x, gate, residual, modulation, y);
    case DeviceKind::cuda: return cuda::gated_add_norm_modulate(context, x, gate, residual, modulation, y);
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
