#pragma once

#include <string>
#include <vector>

#include "models/module_weights.h"
#include "models/qwen3/qwen3_config.h"
#include "offload/offload_plan.h"
#include "weights/tensor_slice.h"

namespace lamina {

/// Shapes are given of the whole encoder.
struct Qwen3Layer {
  const Parameter* input_norm = nullptr;           ///< [hidden]
  const Parameter* qkv = nullptr;                  ///< [(heads + 2 kv_heads) head_dim, hidden]
  const Parameter* q_norm = nullptr;               ///< [head_dim]
  const Parameter* k_norm = nullptr;               ///< [head_dim]
  const Parameter* out = nullptr;                  ///< [hidden, heads head_dim]
  const Parameter* post_attention_norm = nullptr;  ///< [hidden]
  const Parameter* gate_up = nullptr;              ///< [2 intermediate, hidden]
  const Parameter* down = nullptr;                 ///< [hidden, intermediate]
};

/// The part of a Qwen3 text model that conditions FLUX.2: its layers up to the last hidden state that is read. Later
/// layers and the head are never loaded, the final norm only where no layer is left behind that state, and embeddings
/// are gathered on the host. Source: transformers, Qwen3Model.
class Qwen3TextEncoder {
 public:
  /// `dtype_of` is asked for every tensor once. Of a tensor-parallel group, parameters and plan are those of one rank;
  /// throws incompatible for a degree that the sizes do not divide by.
  Qwen3TextEncoder(const Qwen3Config& config, DTypeOf dtype_of, const TensorParallel& parallel = {});

  /// Sizes of the whole encoder.
  const Qwen3Config& config() const noexcept { return config_; }
  const TensorParallel& tensor_parallel() const noexcept { return parallel_; }
  /// Sizes of the rank's part: its heads, and its features of the feed-forward.
  const Qwen3Config& rank_config() const noexcept { return rank_config_; }
  const OffloadPlan& plan() const noexcept { return plan_; }
  std::vector<Parameter*> parameters() { return weights_.parameters(); }
  const std::vector<Qwen3Layer>& layers() const noexcept { return layers_; }
  /// [hidden], or null where the last hidden state is not normed.
  const Parameter* final_norm() const noexcept { return final_norm_; }

  /// The embedding matrix, which stays on the host.
  const TensorSpec& embedding() const noexcept { return embedding_; }
  /// Tensors that a checkpoint may hold and nobody reads: names, and prefixes that end in a dot.
  std::vector<std::string> unused_tensors() const;

 private:
  std::string layer_name(std::int64_t index) const;
  Qwen3Layer declare_layer(const std::string& layer);

  Qwen3Config config_;
  TensorParallel parallel_;
  Qwen3Config rank_config_;
  TensorSpec embedding_;
  ModuleWeights weights_;
  std::vector<Qwen3Layer> layers_;
  const Parameter* final_norm_ = nullptr;
  OffloadPlan plan_;
};

}  // namespace lamina
