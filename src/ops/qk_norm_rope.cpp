#include "ops/qk_norm_rope.h"

#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void qk_norm_rope(OpContext& context, const TensorView& x, const ConstTensorView& weight, const ConstTensorView& cos,
                  const ConstTensorView& sin, RopePairs pairs, float epsilon) {
  const Operand heads("qk_norm_rope", "x", x);
  const Operand cosines("qk_norm_rope", "cos", cos);
  const Operand sines("qk_norm_rope", "sin", sin);
  heads.activation(context).rank(3).rows();
  expects(x.size(2) % 2 == 0, "qk_norm_rope: x {} has an odd number of features a head", to_string(x.shape()));
  Operand("qk_norm_rope", "weight", weight).f32_or_bf16().shape({x.size(2)}).contiguous();
  cosines.f32().shape({x.size(0), x.size(2) / 2}).contiguous();
  sines.f32().shape({x.size(0), x.size(2) / 2}).contiguous();
  heads.apart_from(cosines).apart_from(sines);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::qk_norm_rope(context, x, weight, cos, sin, pairs, epsilon);
    case DeviceKind::cuda: return cuda::qk_norm_rope(context, x, weight, cos, sin, pairs, epsilon);
  }
}

}  // namespace lamina::ops
