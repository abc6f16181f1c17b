#include "ops/copy.h"

#include "base/error.h"
#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/lines.h"
#include "ops/validate.h"

namespace lamina::ops {

void copy(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  expects(x.rank() >= 1 && x.rank() <= Lines<const std::byte>::kAxes + 1, "copy: operand x of shape {}, 1 to 4 axes",
          to_string(x.shape()));
  const Operand from("copy", "x", x);
  from.f32_or_bf16().rank(x.rank()).rows();
  Operand("copy", "y", y).like(from).shape(x.shape()).rows().apart_from(from);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::copy(context, x, y);
    case DeviceKind::cuda: return cuda::copy(context, x, y);
  }
}

}  // namespace lamina::ops
