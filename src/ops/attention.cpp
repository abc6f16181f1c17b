#include "ops/attention.h"

#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

namespace {

void check_key_range(const ConstTensorView& k, const AttentionOptions& options) {
  if (!options.valid_keys) return;
  expects(*options.valid_keys >= 1 && *options.valid_keys <= k.size(0), "attention: {} valid keys of k {}",
          *options.valid_keys, to_string(k.shape()));
}

}  // namespace

void attention(OpContext& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const TensorView& out, const AttentionOptions& options) {
  const Operand queries("attention", "q", q);
  const Operand keys("attention", "k", k);
  const Operand values("attention", "v", v);
  queries.activation(context).rank(3).rows();
  keys.like(queries).rank(3).shape({k.size(0), k.size(1), q.size(2)}).rows();
  values.like(queries).shape(k.shape()).rows();
  Operand("attention", "out", out)
      .like(queries)
      .shape(q.shape())
      .rows()
      .apart_from(queries)
      .apart_from(keys)
      .apart_from(values);
  expects(q.size(1) % k.size(1) == 0, "attention: q {} has no multiple of the heads of k {}", to_string(q.shape()),
          to_string(k.shape()));
  check_key_range(k, options);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::attention(context, q, k, v, out, options);
    case DeviceKind::cuda: return cuda::attention(context, q, k, v, out, options);
  }
}

}  // namespace lamina::ops
