#pragma once

#include <string>
#include <vector>

#include "models/flux2/flux2_config.h"
#include "models/module_weights.h"
#include "offload/offload_plan.h"
#include "weights/tensor_slice.h"

namespace lamina {

/// y = w2 silu(w1 x).
struct Flux2EmbedderWeights {
  const Parameter* linear_1 = nullptr;  ///< [width, timestep_channels]
  const Parameter* linear_2 = nullptr;  ///< [width, width]
};

/// What a double block holds for one of its two token streams. With D = width, M = mlp_width:
struct Flux2StreamWeights {
  const Parameter* qkv = nullptr;     ///< [3 D, D]
  const Parameter* norm_q = nullptr;  ///< [head_dim]
  const Parameter* norm_k = nullptr;  ///< [head_dim]
  const Parameter* out = nullptr;     ///< [D, D]
  const Parameter* ff_in = nullptr;   ///< [2 M, D]: gate, up
  const Parameter* ff_out = nullptr;  ///< [D, M]
};

struct Flux2DoubleBlock {
  Flux2StreamWeights text;
  Flux2StreamWeights image;
};

struct Flux2SingleBlock {
  const Parameter* qkv_mlp = nullptr;  ///< [3 D + 2 M, D]: q, k, v, gate, up
  const Parameter* norm_q = nullptr;   ///< [head_dim]
  const Parameter* norm_k = nullptr;   ///< [head_dim]
  const Parameter* out = nullptr;      ///< [D, D + M]: of the attention's output beside the feed-forward's
};

/// The weights outside the blocks.
struct Flux2OuterWeights {
  Flux2EmbedderWeights timestep;
  Flux2EmbedderWeights guidance;               ///< null without guidance embedding
  const Parameter* modulate_image = nullptr;   ///< [6 D, D]
  const Parameter* modulate_text = nullptr;    ///< [6 D, D]
  const Parameter* modulate_single = nullptr;  ///< [3 D, D]
  const Parameter* modulate_out = nullptr;     ///< [2 D, D]: scale, shift
  const Parameter* embed_image = nullptr;      ///< [D, in_channels]
  const Parameter* embed_text = nullptr;       ///< [D, text_channels]
  const Parameter* out = nullptr;              ///< [out_channels, D]
};

/// The FLUX.2 transformer as a tree of parameters, all placeholders until somebody binds them, with the plan by which
/// they stream. Shapes are given of the whole transformer. No activations: these belong to `Flux2Forward`. Source:
/// diffusers, Flux2Transformer2DModel.
class Flux2Transformer {
 public:
  /// `dtype_of` is asked for every tensor once. Of a tensor-parallel group, parameters and plan are those of one rank;
  /// throws incompatible for a degree that the sizes do not divide by.
  Flux2Transformer(const Flux2Config& config, DTypeOf dtype_of, const TensorParallel& parallel = {});

  /// Sizes of the whole transformer.
  const Flux2Config& config() const noexcept { return config_; }
  const TensorParallel& tensor_parallel() const noexcept { return parallel_; }
  const OffloadPlan& plan() const noexcept { return plan_; }
  std::vector<Parameter*> parameters() { return weights_.parameters(); }

  const Flux2OuterWeights& outer() const noexcept { return outer_; }
  const std::vector<Flux2DoubleBlock>& double_blocks() const noexcept { return double_blocks_; }
  const std::vector<Flux2SingleBlock>& single_blocks() const noexcept { return single_blocks_; }

 private:
  Flux2EmbedderWeights declare_embedder(const std::string& prefix);
  void declare_outer();
  Flux2StreamWeights declare_image_stream(const std::string& block);
  Flux2StreamWeights declare_text_stream(const std::string& block);
  void declare_double_block(const std::string& block);
  void declare_single_block(const std::string& block);

  Flux2Config config_;
  TensorParallel parallel_;
  ModuleWeights weights_;
  Flux2OuterWeights outer_;
  std::vector<Flux2DoubleBlock> double_blocks_;
  std::vector<Flux2SingleBlock> single_blocks_;
  OffloadPlan plan_;
};

}  // namespace lamina
