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

/// From latents to a picture. All parameters are placeholders until somebody binds them; none of them streams.
/// Source: diffusers, AutoencoderKLFlux2.
class Flux2VaeDecoder {
 public:
  /// `dtype_of` is asked for every tensor once.
  Flux2VaeDecoder(const Flux2VaeConfig& config, DTypeOf dtype_of);

  const OffloadPlan& plan() const noexcept { return plan_; }
  std::vector<Parameter*> parameters() { return weights_.parameters(); }

  /// latent [h, w, latent_channels] -> image [factor h, factor w, 3], about -1..1 but not clamped; both of one
  /// activation dtype, contiguous, channels last, factor = `spatial_factor`. Maps between layers are where `options`
  /// says; the bytes of the image do not depend on it. Runs on the context's stream as `run_in_bands` does, and gives
  /// the bytes of pinned memory; `arena` is as it was afterwards, its memory in use until the stream is done. On a
  /// measuring arena, with views that lack data and parameters bound shape-only, it runs in planning contexts only.
  std::size_t decode(ops::OpContext& context, Arena& arena, const TensorView& latent, const TensorView& image,
                     const BandOptions& options = {}) const;

 private:
  FeatureMap project_in(Flux2VaePass& pass, BandRunner& runner, const TensorView& latent) const;

  Flux2VaeConfig config_;
  ModuleWeights weights_;
  std::optional<Flux2VaeConv> post_quant_conv_;
  Flux2VaeConv conv_in_;
  Flux2VaeMidBlock mid_block_;
  std::vector<Flux2VaeLevel> levels_;  ///< from the latent's resolution up
  Flux2VaeNorm norm_out_;
  Flux2VaeConv conv_out_;
  OffloadPlan plan_;
};

}  // namespace lamina
