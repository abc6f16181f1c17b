#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/communicator.h"
#include "models/pass_member.h"
#include "models/qwen3/qwen3_text_encoder.h"
#include "tensor/arena.h"

namespace lamina {

/// Scratch activations of a text encoder, shared by samples that run on one stream. A view: the memory is the
/// arena's. `columns` holds | q | k | v | attended | in a layer's first half, | gate | up | in its second; of a
/// tensor-parallel group, those of the rank's heads and features.
struct Qwen3Activations {
  TensorView normed;   ///< [tokens, hidden]: a projection's input, and then what comes back from the half layer
  TensorView columns;  ///< [tokens, ...]
  Communicator* group = nullptr;

  /// Throws internal unless the encoder is that of a rank of `group`, the tensor-parallel one (null: the rank alone).
  Qwen3Activations(const Qwen3TextEncoder& encoder, std::int64_t tokens, DType dtype, Communicator* group,
                   Arena& arena);
};

/// What one prompt's pass reads, on the device, contiguous. Activations have the dtype of `embeddings`.
struct Qwen3Inputs {
  ConstTensorView embeddings;  ///< [tokens, hidden], see `gather_embeddings`
  ConstTensorView cos;         ///< [tokens, head_dim / 2] f32, see `qwen3_rope_table`
  ConstTensorView sin;
  std::int64_t valid_tokens = 0;  ///< the tokens behind these are padding: no token attends to them
};

/// One prompt on its way through the encoder's stack, on all ranks of the activations' group together. Rows of padding
/// are computed like all others, since the transformer reads them too.
class Qwen3Sample : public PassMember {
 public:
  /// `encoder` outlives the sample; `activations` have the tokens of `inputs`. On a measuring arena, with views that
  /// lack data, it runs in planning contexts only.
  Qwen3Sample(const Qwen3TextEncoder& encoder, const Qwen3Inputs& inputs, const Qwen3Activations& activations,
              Arena& arena);

  void begin(ops::OpContext&) override {}
  void run_unit(std::size_t unit, ops::OpContext& context) override;
  void finish(ops::OpContext& context) override;

  /// [tokens, 3 hidden]: the hidden states of `Qwen3Config::kHiddenStates` side by side; complete after `finish`.
  TensorView hidden_states() const { return hidden_states_; }

 private:
  /// Where the residual stream enters and leaves half a layer.
  struct Residual {
    ConstTensorView before;
    TensorView after;
    bool moves = false;  ///< they are different memory
  };

  Residual residual_of(std::size_t layer) const;
  void add_attention(const Qwen3Layer& layer, const Residual& residual, ops::OpContext& context) const;
  void add_feed_forward(const Qwen3Layer& layer, const TensorView& residual, ops::OpContext& context) const;
  /// Makes the sum over the ranks of what is in `normed`.
  void sum_over_ranks(ops::OpContext& context) const;

  const Qwen3TextEncoder& encoder_;
  const Qwen3Config& config_;  ///< of the rank's part
  Qwen3Inputs inputs_;
  Qwen3Activations activations_;
  TensorView hidden_states_;
};

}  // namespace lamina
