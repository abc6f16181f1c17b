#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// Which features a rotation pairs: (2j, 2j+1), as FLUX does, or (j, j + head_dim/2), as Qwen does.
enum class RopePairs { interleaved, half_split };

/// In place: RMS norm over each head's features times `weight`, then rotation of pair j of token t by the angle whose
/// cosine and sine are cos[t, j] and sin[t, j].
/// x [tokens, heads, head_dim] activations, tokens and heads may be strided; weight [head_dim], f32 or bf16;
/// cos, sin [tokens, head_dim / 2] f32 contiguous.
void qk_norm_rope(OpContext& context, const TensorView& x, const ConstTensorView& weight, const ConstTensorView& cos,
                  const ConstTensorView& sin, RopePairs pairs, float epsilon);

}  // namespace lamina::ops
