#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/flux2_vae/flux2_vae_layers.h"
#include "offload/offload_plan.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

class FeatureMap;
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
  /// activation dtype, contiguous, channels last, factor = `spatial_factor`. Enqueues on the context's stream and
  /// returns; `arena` is as it was afterwards, its memory in use until the stream is done. On a measuring arena, with
  /// views that lack data and parameters bound shape-only, it runs in planning contexts only.
  void decode(ops::OpContext& context, Arena& arena, const ConstTensorView& latent, const TensorView& image) const;

 private:
  /// Elements of the largest feature map between layers.
  std::int64_t largest_map(std::int64_t latent_pixels) const;
  void project_in(Flux2VaePass& pass, Arena& arena, const ConstTensorView& latent, FeatureMap& x) const;

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
