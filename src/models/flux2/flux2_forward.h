#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/flux2/flux2_activations.h"
#include "models/flux2/flux2_modulation.h"
#include "models/flux2/flux2_transformer.h"
#include "models/sequence_shards.h"
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
/// Together with the other ranks of the activations' groups: each has its heads and features of every block, and its
/// tokens of the joint sequence, but the whole of inputs and velocity. Calls are collective, except on a planning
/// context: there every rank goes through the parts of all ranks, so that all find the same workspace.
///
/// The residual stream and the velocity are its own; modulation and activations belong to the owner of the pass, who
/// has enqueued `Flux2Modulation::compute` before `begin`. Source: diffusers, Flux2Transformer2DModel.forward, and its
/// plans for tensor and context parallelism.
class Flux2Forward {
 public:
  /// `transformer` and `modulation` outlive the forward; `activations` are for the tokens of `inputs`. On a measuring
  /// arena, with views that lack data, it runs in planning contexts only.
  Flux2Forward(const Flux2Transformer& transformer, const Flux2Inputs& inputs, const Flux2Modulation& modulation,
               const Flux2Activations& activations, Arena& arena);

  void begin(ops::OpContext& context) const;
  void run_unit(std::size_t unit, ops::OpContext& context) const;
  void finish(ops::OpContext& context) const;

  /// The rank's rows of the residual stream, text rows first: [tokens, width]. Complete between units.
  ConstTensorView residual() const { return residual_.slice(0, 0, activations_.shards().own().size()); }
  /// [velocity_tokens, out_channels] f32, noise minus data; complete after `finish`.
  TensorView velocity() const;

 private:
  /// Some of a rank's tokens.
  struct Part {
    TensorView residual;
    Flux2Activations::Rows scratch;
    ConstTensorView cos;
    ConstTensorView sin;

    bool empty() const { return residual.size(0) == 0; }
  };
  /// A rank's tokens that go through a double block with weights of their own.
  struct TokenStream {
    Part part;
    const Flux2StreamWeights& weights;
    Flux2Modulation::DoubleBlock modulation;
  };

  std::int64_t text_tokens() const { return inputs_.text.size(0); }
  std::int64_t all_tokens() const { return text_tokens() + inputs_.image.size(0); }
  TokenRange text() const { return {0, text_tokens()}; }
  TokenRange image() const { return {text_tokens(), all_tokens()}; }
  TokenRange picture() const { return {text_tokens(), text_tokens() + inputs_.velocity_tokens}; }

  /// The tokens of the ranks whose part this one goes through.
  std::span<const TokenRange> ranks(const ops::OpContext& context) const;
  /// Those of `tokens` that are a rank's own.
  Part part(const TokenRange& own, const TokenRange& tokens) const;
  Part part(const TokenRange& own) const { return part(own, own); }

  void embed(const TokenRange& own, ops::OpContext& context) const;
  /// Those of which the rank has tokens.
  std::vector<TokenStream> token_streams(const Flux2DoubleBlock& block, const TokenRange& own) const;
  void run_double_block(const Flux2DoubleBlock& block, const TokenRange& own, ops::OpContext& context) const;
  void run_single_block(const Flux2SingleBlock& block, const TokenRange& own, ops::OpContext& context) const;
  void find_velocity(const TokenRange& own, ops::OpContext& context) const;

  void normalise(const Part& part, const Flux2BranchModulation& modulation, ops::OpContext& context) const;
  void project_qkv(const Part& part, const ConstTensorView& weight, const Parameter& norm_q, const Parameter& norm_k,
                   ops::OpContext& context) const;
  void attend(const Part& all, ops::OpContext& context) const;
  /// Of what is normalised already.
  void project_feed_forward(const Part& part, const Flux2StreamWeights& weights, ops::OpContext& context) const;
  /// Makes the sum over the ranks of what is projected.
  void sum_projected(const Part& all, ops::OpContext& context) const;

  const Flux2Transformer& transformer_;
  const Flux2Config& config_;
  const Flux2Modulation& modulation_;
  Flux2Inputs inputs_;
  Flux2Activations activations_;
  TensorView residual_;  ///< [the rank's tokens and padding, width]
  /// [velocity_tokens, out_channels]; with sequence parallelism [all ranks' tokens and padding, out_channels], of which
  /// the picture's are meant.
  TensorView velocity_;
};

}  // namespace lamina
