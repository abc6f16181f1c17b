#pragma once

#include <cstdint>
#include <functional>

#include "models/bands/band_runner.h"
#include "models/flux2_vae/flux2_vae_layers.h"
#include "ops/group_norm.h"

namespace lamina {

/// Runs layers of the autoencoder, one after the other and each in bands, on one feature map `x`, which a layer
/// replaces where its shape changes. Beside `x`, a layer holds at most two further maps. A norm is part of the
/// convolution that follows it: only what a band needs is normalised, by moments of the whole map.
class Flux2VaePass {
 public:
  Flux2VaePass(BandRunner& runner, int norm_groups) : runner_(runner), norm_groups_(norm_groups) {}

  /// y = conv(x), 3x3 or 1x1, the resolution stays. Of the layer's output channels the first ones, as many as y has.
  void conv(const Flux2VaeConv& layer, const FeatureMap& x, const FeatureMap& y);
  /// y = conv(silu(norm(x))), likewise.
  void conv_of_norm(const Flux2VaeNorm& norm, const Flux2VaeConv& layer, const FeatureMap& x, const FeatureMap& y);
  void resnets(const Flux2VaeLevel& level, FeatureMap& x);
  void mid_block(const Flux2VaeMidBlock& block, FeatureMap& x);
  /// Half the resolution. Source: diffusers, Downsample2D with padding 0.
  void downsample(const Flux2VaeConv& layer, FeatureMap& x);
  /// Twice the resolution.
  void upsample(const Flux2VaeConv& layer, FeatureMap& x);

 private:
  using Fill = std::function<void(const TensorView& rows)>;

  void resnet(const Flux2VaeResnet& layer, FeatureMap& x);
  void attention(const Flux2VaeAttention& layer, FeatureMap& x);
  FeatureMap make_map(const FeatureMap& like, std::int64_t height, std::int64_t width, std::int64_t channels);
  TensorView normalisation(const Flux2VaeNorm& layer, const FeatureMap& x);
  TensorView pad(const FeatureMap& map, const MapRows& rows, const Fill& fill);
  TensorView pad_copy(const FeatureMap& map, const MapRows& rows, const TensorView& those_there);
  void zero(const TensorView& rows);

  ops::OpContext& context() const noexcept { return runner_.context(); }

  BandRunner& runner_;
  int norm_groups_;
};

}  // namespace lamina
