#include "ops/attention_cuda.h"

#include "device/cuda/cuda_native.h"
#include "ops/cuda_ops.h"

namespace lamina::ops::cuda {

void attention(OpContext& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const TensorView& out, const AttentionOptions& options) {
  lamina::cuda::make_current(context.stream());  // for which plans are made
  const std::int64_t keys = options.valid_keys.value_or(k.size(0));
  const AttentionOperands operands{q, k.slice(0, 0, keys), v.slice(0, 0, keys), out, options.scale, options.causal};
  if (const auto plan = find_sdpa(operands)) return sdpa(context, operands, *plan);
  chunked_attention(context, operands);
}

}  // namespace lamina::ops::cuda
