#pragma once

#include <optional>

#include "models/flux2/flux2_transformer.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

/// How a timestep shapes one residual branch: y += gate * f(LN(y) (1 + scale) + shift). Views of [width].
struct Flux2BranchModulation {
  ConstTensorView shift;
  ConstTensorView scale;
  ConstTensorView gate;
};

/// The vectors by which timestep and guidance modulate a forward pass. They are the same for all blocks, for both
/// guidance branches and for all tokens, so whoever runs a step computes them once. Memory is the arena's.
class Flux2Modulation {
 public:
  struct DoubleBlock {
    Flux2BranchModulation attention;
    Flux2BranchModulation feed_forward;
  };
  struct Out {
    ConstTensorView scale;
    ConstTensorView shift;
  };

  Flux2Modulation(const Flux2Config& config, DType dtype, Arena& arena);

  /// Enqueues the computation; the transformer's outside weights are bound. `timestep` and `guidance` are rows of
  /// `flux2_sinusoid` [timestep_channels] on the device, of the modulation's dtype; guidance goes with the guidance
  /// embedding.
  void compute(ops::OpContext& context, const Flux2Transformer& transformer, const ConstTensorView& timestep,
               const std::optional<ConstTensorView>& guidance = std::nullopt) const;

  DoubleBlock text() const { return double_block(text_); }
  DoubleBlock image() const { return double_block(image_); }
  Flux2BranchModulation single() const { return branch(single_, 0); }
  Out out() const { return {vector(out_, 0), vector(out_, 1)}; }

 private:
  void embed(ops::OpContext& context, const Flux2EmbedderWeights& weights, const ConstTensorView& sinusoid,
             const TensorView& embedding) const;

  ConstTensorView vector(const TensorView& vectors, std::int64_t index) const;
  Flux2BranchModulation branch(const TensorView& vectors, std::int64_t first) const;
  DoubleBlock double_block(const TensorView& vectors) const { return {branch(vectors, 0), branch(vectors, 3)}; }

  std::int64_t width_;
  // [1, n width] each.
  TensorView hidden_;
  TensorView embedding_;
  TensorView guidance_embedding_;
  TensorView text_;
  TensorView image_;
  TensorView single_;
  TensorView out_;
};

}  // namespace lamina
