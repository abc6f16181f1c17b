#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// Which features a rotation pairs: (2j, 2j+1), as FLUX does, or (j, j + head_dim/2), as Qwen does.
enum class RopePairs { interleaved, half_split };

/// Weights of the norms of queries and keys: [head_dim], f32 or bf16, both of one dtype.
struct QkNorm {
  ConstTensorView q;
  ConstTensorView k;
  float epsilon = 1e-6F;
};

/// Pair j of token t is turned by the angle whose cosine and sine are cos[t, j] and sin[t, j]: [tokens, head_dim / 2]
/// each, f32, contiguous.
struct Rotation {
  ConstTensorView cos;
  ConstTensorView sin;
  RopePairs pairs = RopePairs::interleaved;
};

/// In place, for queries and keys at once: RMS norm over each head's features times the weights, then the rotation.
/// q [tokens, heads, head_dim], k [tokens, key heads, head_dim], activations; tokens and heads may be strided.
void qk_norm_rope(OpContext& context, const TensorView& q, const TensorView& k, const QkNorm& norm,
                  const Rotation& rotation);

}  // namespace lamina::ops
