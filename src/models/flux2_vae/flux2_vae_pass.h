#pragma once

#include <cstdint>

#include "models/flux2_vae/flux2_vae_layers.h"
#include "ops/group_norm.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

/// A feature map [height, width, channels] in memory for a given number of elements, whose shape changes as
/// layers rework it in place. A view: the memory is the arena's.
class FeatureMap {
 public:
  FeatureMap(Arena& arena, DType dtype, std::int64_t capacity) : memory_(arena.take(dtype, {capacity})) {}

  const TensorView& view() const noexcept { return view_; }
  DType dtype() const noexcept { return memory_.dtype(); }
  std::int64_t height() const { return view_.size(0); }
  std::int64_t width() const { return view_.size(1); }
  std::int64_t channels() const { return view_.size(2); }

  /// The same memory under another shape, contents to be written. Throws internal beyond the capacity.
  const TensorView& become(std::int64_t height, std::int64_t width, std::int64_t channels);

 private:
  TensorView memory_;
  TensorView view_;
};

/// Runs layers of the autoencoder, one after the other, on one feature map `x`. Beside `x`, a layer takes its
/// intermediate results from the arena and gives them back: two feature maps at most, so that a pass needs hardly more
/// than what its largest layer must hold at once.
class Flux2VaePass {
 public:
  Flux2VaePass(ops::OpContext& context, Arena& arena, int norm_groups)
      : context_(context), arena_(arena), norm_groups_(norm_groups) {}

  /// 3x3 or 1x1, the resolution stays.
  void conv(const Flux2VaeConv& layer, const ConstTensorView& x, const TensorView& y);
  /// The same for the layer's first output channels only, as many as `y` has.
  void conv_leading(const Flux2VaeConv& layer, const ConstTensorView& x, const TensorView& y);
  /// In place.
  void norm_silu(const Flux2VaeNorm& layer, const TensorView& x);
  void resnets(const Flux2VaeLevel& level, FeatureMap& x);
  void mid_block(const Flux2VaeMidBlock& block, FeatureMap& x);
  /// Half the resolution. Source: diffusers, Downsample2D with padding 0.
  void downsample(const Flux2VaeConv& layer, FeatureMap& x);
  /// Twice the resolution.
  void upsample(const Flux2VaeConv& layer, FeatureMap& x);

 private:
  void resnet(const Flux2VaeResnet& layer, FeatureMap& x);
  void attention(const Flux2VaeAttention& layer, FeatureMap& x);
  void norm(const Flux2VaeNorm& layer, const ConstTensorView& x, ops::Activation activation, const TensorView& y);

  ops::OpContext& context_;
  Arena& arena_;
  int norm_groups_;
};

}  // namespace lamina
