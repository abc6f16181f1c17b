#include "ops/qk_norm_rope.h"

#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void qk_norm_rope(OpContext& context, const TensorView& q, const TensorView& k, const QkNorm& norm,
                  const Rotation& rotation) {
  const Operand queries("qk_norm_rope", "q", q);
  const Operand keys("qk_norm_rope", "k", k);
  const Operand q_weight("qk_norm_rope", "q's weight", norm.q);
  const Operand k_weight("qk_norm_rope", "k's weight", norm.k);
  const Operand cosines("qk_norm_rope", "cos", rotation.cos);
  const Operand sines("qk_norm_rope", "sin", rotation.sin);
  queries.activation(context).rank(3).rows();
  const std::int64_t features = q.size(2);
  expects(features % 2 == 0, "qk_norm_rope: q {} has an odd number of features a head", to_string(q.shape()));
  keys.like(queries).rank(3).shape({q.size(0), k.size(1), features}).rows();
  q_weight.f32_or_bf16().shape({features}).contiguous();
  k_weight.like(q_weight).shape({features}).contiguous();
  for (const Operand& table : {cosines, sines}) {
    table.f32().shape({q.size(0), features / 2}).contiguous().apart_from(queries).apart_from(keys);
  }
  keys.apart_from(queries);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::qk_norm_rope(context, q, k, norm, rotation);
    case DeviceKind::cuda: return cuda::qk_norm_rope(context, q, k, norm, rotation);
  }
}

}  // namespace lamina::ops
