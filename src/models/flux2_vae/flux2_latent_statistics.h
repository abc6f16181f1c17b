#pragma once

#include <vector>

#include "models/flux2_vae/flux2_vae_config.h"
#include "models/module_weights.h"
#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"

namespace lamina {

/// Mean and deviation of the latents per packed channel, on the host: what `ops::unpack_latents` and
/// `ops::pack_latents` take, after the caller has copied them to the device.
/// Source: FLUX.2 pipeline; deviation = sqrt(running_var + batch_norm_eps) of the autoencoder's batch norm, which is
/// never run as a layer.
struct Flux2LatentStatistics {
  std::vector<float> mean;
  std::vector<float> deviation;

  /// The tensors that `read` takes.
  static std::vector<TensorSpec> tensors(const Flux2VaeConfig& config, const DTypeOf& dtype_of);
  /// Throws not_found or incompatible as `Checkpoint::view` does, not_implemented for dtypes other than F32 and BF16,
  /// corrupt naming tensor and channel for a negative or non-finite value.
  static Flux2LatentStatistics read(const Flux2VaeConfig& config, const Checkpoint& checkpoint);
};

}  // namespace lamina
