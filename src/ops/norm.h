#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// y = LN(x) (1 + scale) + shift, LN over the features without affine parameters.
/// x, y [rows, features] activations, rows may be strided; scale, shift [features] of their dtype. y may be x.
void layer_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& scale,
                         const ConstTensorView& shift, float epsilon, const TensorView& y);

/// y = x / sqrt(mean(x²) + epsilon) * weight over the features.
/// x, y [rows, features] activations, rows may be strided; weight [features], f32 or bf16. y may be x.
void rms_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
              const TensorView& y);

}  // namespace lamina::ops
