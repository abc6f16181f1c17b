#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/config_reader.h"

namespace lamina {

/// Sizes of a Qwen3 text model, from `text_encoder/config.json`, and how FLUX.2 reads prompts through it.
struct Qwen3Config {
  /// A prompt is padded or cut to this many tokens.
  static constexpr std::int64_t kPromptTokens = 512;
  /// Its embedding is the hidden states after this many layers, side by side. Source: diffusers, Flux2KleinPipeline.
  static constexpr std::array<std::int64_t, 3> kHiddenStates{9, 18, 27};

  std::string prefix = "model.";  ///< of the tensors' names
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  ///< width of the feed-forward
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< divides `heads`
  std::int64_t head_dim = 0;  ///< even; heads * head_dim need not be `hidden`
  double rope_theta = 0;
  float epsilon = 0;  ///< of all norms

  /// Whether the last hidden state is the model's own result, which went through its final norm.
  bool norms_last_state() const noexcept { return layers == kHiddenStates.back(); }

  /// Throws not_found or incompatible naming file and field, also for variants of the architecture that differ in what
  /// they compute (sliding windows, biases, scaled rotations, other activations).
  static Qwen3Config read(const ConfigReader& reader);
};

}  // namespace lamina
