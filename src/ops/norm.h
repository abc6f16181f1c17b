#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// y = LN(x) (1 + scale) + shift, LN over the features without affine parameters.
/// x, y [rows, features] activations, rows may be strided; scale, shift [features] of their dtype. y may be x.
void layer_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& scale,
                         const ConstTensorView& shift, float epsilon, const TensorView& y);

/// How the features of a normalised row are scaled and shifted: [features] each, of the row's dtype.
struct Modulation {
  ConstTensorView scale;
  ConstTensorView shift;
  float epsilon = 1e-6F;
};

/// residual += gate * x, then y = LN(residual) (1 + scale) + shift: `gated_add` and `layer_norm_modulate` in one pass,
/// with the same bytes. x, residual, y [rows, features] activations, rows may be strided; gate [features] of their
/// dtype. None overlaps another.
void gated_add_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate,
                             const TensorView& residual, const Modulation& modulation, const TensorView& y);

/// y = x / sqrt(mean(x²) + epsilon) * weight over the features.
/// x, y [rows, features] activations, rows may be strided; weight [features], f32 or bf16. y may be x.
void rms_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
              const TensorView& y);

}  // namespace lamina::ops
