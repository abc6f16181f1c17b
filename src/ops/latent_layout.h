#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// How packed latent tokens relate to the VAE's latent image: token (h, w) holds the 2x2 pixels (2h + dy, 2w + dx) of
/// each channel c at packed channel c * 4 + dy * 2 + dx, normalised as (x - mean) / deviation.
/// Source: FLUX.2 pipeline, latent patchify and batch-norm statistics.
struct LatentNormalisation {
  ConstTensorView mean;       ///< [packed channels] f32
  ConstTensorView deviation;  ///< [packed channels] f32, positive
};

/// tokens [height * width, 4 * channels] -> pixels [2 height, 2 width, channels] (channels last), x * deviation + mean.
/// Both contiguous; tokens f32, pixels activations.
void unpack_latents(OpContext& context, const ConstTensorView& tokens, const LatentNormalisation& normalisation,
                    const TensorView& pixels);

/// The inverse: pixels -> tokens, (x - mean) / deviation. The pixels' channels may be the first ones of a wider tensor
/// (pixel rows strided, channels contiguous).
void pack_latents(OpContext& context, const ConstTensorView& pixels, const LatentNormalisation& normalisation,
                  const TensorView& tokens);

}  // namespace lamina::ops
