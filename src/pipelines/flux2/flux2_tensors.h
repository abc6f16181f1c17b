#pragma once

#include <vector>

#include "models/flux2/flux2_transformer.h"
#include "models/flux2_vae/flux2_vae_decoder.h"
#include "models/flux2_vae/flux2_vae_encoder.h"
#include "models/qwen3/qwen3_text_encoder.h"
#include "tensor/tensor_spec.h"

namespace lamina {

// Every checkpoint tensor that a component of FLUX.2 reads: what is checked where a model is opened, and what a
// synthetic checkpoint is made of. Tensors that belong together are neighbours.

std::vector<TensorSpec> checkpoint_tensors(const Flux2Transformer& transformer);
/// The embedding, and the layers up to the last hidden state that is read.
std::vector<TensorSpec> checkpoint_tensors(const Qwen3TextEncoder& text_encoder);
/// Both halves of the autoencoder, and the statistics of its latents.
std::vector<TensorSpec> checkpoint_tensors(const Flux2VaeConfig& config, const Flux2VaeEncoder& encoder,
                                           const Flux2VaeDecoder& decoder, const DTypeOf& dtype_of);

}  // namespace lamina
