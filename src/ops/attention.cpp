#include "ops/attention.h"

#include "ops/cpu_ops.h"
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
  queries.f32().rank(3).rows();
  keys.f32().rank(3).shape({k.size(0), k.size(1), q.size(2)}).rows();
  values.f32().shape(k.shape()).rows();
  Operand("attention", "out", out)
      .f32()
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
    case DeviceKind::cuda: break;
  }
  refuse_device("attention", context);
}

}  // namespace lamina::ops
