#pragma once

#include <cstddef>
#include <cstdint>

#include "models/flux2/flux2_activations.h"
#include "models/flux2/flux2_modulation.h"
#include "models/flux2/flux2_transformer.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

/// What one forward pass reads, on the device, contiguous. Activations have the dtype of `image`.
struct Flux2Inputs {
  ConstTensorView text;   ///< [text tokens, text_channels]
  ConstTensorView image;  ///< [image tokens, in_channels]: the picture's tokens, then those of reference images
  ConstTensorView cos;    ///< [text + image tokens, head_dim / 2] f32, see `flux2_rope_table`
  ConstTensorView sin;
  std::int64_t velocity_tokens = 0;  ///< the first image tokens, for which a velocity is asked
};

/// One forward pass of one guidance branch: `begin`, then `run_unit` for every unit of the plan's only stack in order,
/// each while its parameters are bound, then `finish`; again for the next step, with new contents in the inputs.
/// Calls enqueue on the context's stream and return.
///
/// The residual stream and the velocity are its own; modulation and activations belong to the owner of the pass, who
/// has enqueued `Flux2Modulation::compute` before `begin`. Source: diffusers, Flux2Transformer2DModel.forward.
class Flux2Forward {
 public:
  /// `transformer` and `modulation` outlive the forward. On a measuring arena, with views that lack data, it runs in
  /// planning contexts only. Throws not_implemented for a rank's part of a transformer: sums over ranks are missing.
  Flux2Forward(const Flux2Transformer& transformer, const Flux2Inputs& inputs, const Flux2Modulation& modulation,
               const Flux2Activations& activations, Arena& arena);

  void begin(ops::OpContext& context) const;
  void run_unit(std::size_t unit, ops::OpContext& context) const;
  void finish(ops::OpContext& context) const;

  /// The residual stream, text rows first: [text + image tokens, width]. Complete between units.
  ConstTensorView residual() const { return residual_; }
  /// [velocity_tokens, out_channels] f32, noise minus data; complete after `finish`.
  TensorView velocity() const { return velocity_; }

 private:
  /// Some tokens' part of the joint sequence.
  struct Part {
    TensorView residual;
    Flux2Activations scratch;
    ConstTensorView cos;
    ConstTensorView sin;
  };

  std::int64_t text_tokens() const { return inputs_.text.size(0); }
  std::int64_t all_tokens() const { return residual_.size(0); }
  Part part(std::int64_t begin, std::int64_t end) const;

  void run_double_block(const Flux2DoubleBlock& block, ops::OpContext& context) const;
  void run_single_block(const Flux2SingleBlock& block, ops::OpContext& context) const;

  void normalise(const Part& part, const Flux2BranchModulation& modulation, ops::OpContext& context) const;
  void project_qkv(const Part& part, const ConstTensorView& weight, const Parameter& norm_q, const Parameter& norm_k,
                   ops::OpContext& context) const;
  void attend(const Part& part, ops::OpContext& context) const;
  void add_feed_forward(const Part& part, const Flux2StreamWeights& weights, const Flux2BranchModulation& modulation,
                        ops::OpContext& context) const;

  const Flux2Transformer& transformer_;
  const Flux2Config& config_;
  const Flux2Modulation& modulation_;
  Flux2Inputs inputs_;
  TensorView residual_;
  TensorView velocity_;
  Flux2Activations activations_;
};

}  // namespace lamina
