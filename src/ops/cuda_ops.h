#pragma once

#include <optional>

#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/group_norm.h"
#include "ops/latent_layout.h"
#include "ops/norm.h"
#include "ops/op_context.h"
#include "ops/qk_norm_rope.h"
#include "tensor/tensor_view.h"

/// The CUDA versions of operations: the signatures of the public ones, operands already checked. In a build without
/// CUDA they all throw unavailable.
namespace lamina::ops::cuda {

void linear(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
            const std::optional<ConstTensorView>& bias);

void attention(OpContext& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const TensorView& out, const AttentionOptions& options);

void layer_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& scale,
                         const ConstTensorView& shift, float epsilon, const TensorView& y);

void gated_add_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate,
                             const TensorView& residual, const Modulation& modulation, const TensorView& y);

void rms_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
              const TensorView& y);

void qk_norm_rope(OpContext& context, const TensorView& q, const TensorView& k, const QkNorm& norm,
                  const Rotation& rotation);

void silu(OpContext& context, const ConstTensorView& x, const TensorView& y);
void silu_mul(OpContext& context, const ConstTensorView& gate, const ConstTensorView& up, const TensorView& y);
void add(OpContext& context, const ConstTensorView& x, const TensorView& y);
void gated_add(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate, const TensorView& y);
void cast(OpContext& context, const ConstTensorView& x, const TensorView& y);
void guide(OpContext& context, const ConstTensorView& conditional, const ConstTensorView& unconditional, float scale,
           const TensorView& velocity);
void euler_step(OpContext& context, const ConstTensorView& velocity, float step, const TensorView& latents);

void copy(OpContext& context, const ConstTensorView& x, const TensorView& y);

void conv2d(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const ConstTensorView& bias,
            const Conv2dOptions& options, const TensorView& y);
void upsample_nearest_2x(OpContext& context, const ConstTensorView& x, const TensorView& y);
void channel_moments(OpContext& context, const ConstTensorView& x, const TensorView& moments);

void group_normalisation(OpContext& context, const ConstTensorView& moments, std::int64_t pixels,
                         const ConstTensorView& weight, const ConstTensorView& bias, const GroupNormOptions& options,
                         const TensorView& normalisation);

void normalise_channels(OpContext& context, const ConstTensorView& x, const ConstTensorView& normalisation,
                        Activation activation, const TensorView& y);

void unpack_latents(OpContext& context, const ConstTensorView& tokens, const LatentNormalisation& normalisation,
                    const TensorView& pixels);
void pack_latents(OpContext& context, const ConstTensorView& pixels, const LatentNormalisation& normalisation,
                  const TensorView& tokens);

}  // namespace lamina::ops::cuda
