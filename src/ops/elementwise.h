#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

// Activations are [rows, features] with contiguous features; rows may be strided. Latents and velocities are f32.

/// y = silu(x). y may be x.
void silu(OpContext& context, const ConstTensorView& x, const TensorView& y);

/// y = silu(gate) * up. y may be gate or up.
void silu_mul(OpContext& context, const ConstTensorView& gate, const ConstTensorView& up, const TensorView& y);

/// y += x.
void add(OpContext& context, const ConstTensorView& x, const TensorView& y);

/// y += gate * x, gate [features] of their dtype.
void gated_add(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate, const TensorView& y);

/// y = x, converted between f32 and bf16 (round to nearest even) or copied; any rank, both contiguous.
void cast(OpContext& context, const ConstTensorView& x, const TensorView& y);

/// Classifier-free guidance: velocity = unconditional + scale * (conditional - unconditional). velocity may be either.
void guide(OpContext& context, const ConstTensorView& conditional, const ConstTensorView& unconditional, float scale,
           const TensorView& velocity);

/// latents += step * velocity.
void euler_step(OpContext& context, const ConstTensorView& velocity, float step, const TensorView& latents);

}  // namespace lamina::ops
