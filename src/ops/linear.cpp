#include "ops/linear.h"

#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void linear(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
            const std::optional<ConstTensorView>& bias) {
  const Operand input("linear", "x", x);
  input.activation(context).rank(2).rows();
  Operand("linear", "w", w).f32_or_bf16().rank(2).shape({w.size(0), x.size(1)}).contiguous();
  const Operand output("linear", "y", y);
  output.shape({x.size(0), w.size(0)}).rows().apart_from(input);
  if (y.dtype() != DType::f32) output.like(input);
  if (bias) Operand("linear", "bias", *bias).f32_or_bf16().shape({w.size(0)}).contiguous();

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::linear(context, x, w, y, bias);
    case DeviceKind::cuda: return cuda::linear(context, x, w, y, bias);
  }
}

}  // namespace lamina::ops
