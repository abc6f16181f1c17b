#include "ops/group_norm.h"

#include "base/error.h"
#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void group_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, const GroupNormOptions& options, const TensorView& y) {
  const Operand input("group_norm", "x", x);
  input.activation(context).rank(3).contiguous();
  const std::int64_t channels = x.size(2);
  Operand("group_norm", "weight", weight).f32_or_bf16().shape({channels}).contiguous();
  Operand("group_norm", "bias", bias).f32_or_bf16().shape({channels}).contiguous();
  Operand("group_norm", "y", y).like(input).shape(x.shape()).contiguous().same_or_apart_from(input);
  expects(options.groups > 0 && channels % options.groups == 0, "group_norm: {} channels do not form {} groups",
          channels, options.groups);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::group_norm(context, x, weight, bias, options, y);
    case DeviceKind::cuda: return cuda::group_norm(context, x, weight, bias, options, y);
  }
}

}  // namespace lamina::ops
