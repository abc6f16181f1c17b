#pragma once

#include <cstdint>
#include <optional>

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

struct AttentionOptions {
  float scale = 1.0F;                      ///< of q·k before the softmax
  bool causal = false;                     ///< query i sees keys j <= i
  std::optional<std::int64_t> valid_keys;  ///< only keys [0, valid_keys) are seen; at least one
};

/// out = softmax(scale q kᵀ + mask) v, head by head; query head h uses key/value head h / (heads / kv_heads).
/// q, out [queries, heads, head_dim]; k, v [keys, kv_heads, head_dim]; activations of one dtype, tokens and heads may
/// be strided, out does not overlap the others. Never holds the scores of more than one head, nor of more queries than
/// a fixed scratch holds. Scratch depends on the options too: plan with those of the run.
void attention(OpContext& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const TensorView& out, const AttentionOptions& options);

}  // namespace lamina::ops
