#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/bands/band_runner.h"
#include "models/flux2_vae/flux2_vae_layers.h"
#include "offload/offload_plan.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

class Flux2VaePass;

/// From a picture to latents. All parameters are placeholders until somebody binds them; none of them streams.
/// Source: diffusers, AutoencoderKLFlux2.
class Flux2VaeEncoder {
 public:
  /// `dtype_of` is asked for every tensor once.
  Flux2VaeEncoder(const Flux2VaeConfig& config, DTypeOf dtype_of);

  const OffloadPlan& plan() const noexcept { return plan_; }
  std::vector<Parameter*> parameters() { return weights_.parameters(); }

  /// image [factor h, factor w, 3] in -1..1 -> mean [h, w, latent_channels] of the posterior, its mode; both of one
  /// activation dtype, contiguous, channels last, factor = `spatial_factor`. Runs as `Flux2VaeDecoder::decode` does.
  std::size_t encode(ops::OpContext& context, Arena& arena, const TensorView& image, const TensorView& mean,
                     const BandOptions& options = {}) const;

 private:
  void project_out(Flux2VaePass& pass, BandRunner& runner, const FeatureMap& x, const TensorView& mean) const;

  Flux2VaeConfig config_;
  ModuleWeights weights_;
  Flux2VaeConv conv_in_;
  std::vector<Flux2VaeLevel> levels_;  ///< from the image's resolution down
  Flux2VaeMidBlock mid_block_;
  Flux2VaeNorm norm_out_;
  Flux2VaeConv conv_out_;
  std::optional<Flux2VaeConv> quant_conv_;
  OffloadPlan plan_;
};

}  // namespace lamina
