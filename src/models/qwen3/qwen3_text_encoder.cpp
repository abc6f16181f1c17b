#include "models/qwen3/qwen3_text_encoder.h"

#include <utility>

#include "base/error.h"
#include "models/qwen3/qwen3_shards.h"

namespace lamina {
namespace {

constexpr const char* kLayers = "layers";
constexpr const char* kEmbedding = "embed_tokens.weight";
constexpr const char* kFinalNorm = "norm.weight";

Qwen3Config config_of_rank(Qwen3Config config, const TensorParallel& parallel) {
  check_qwen3_tensor_parallel(config, parallel);
  config.heads /= parallel.degree;
  config.kv_heads /= parallel.degree;
  config.intermediate /= parallel.degree;
  return config;
}

SliceOf slices_of_rank(const Qwen3Config& config, const TensorParallel& parallel) {
  if (parallel.degree == 1) return {};
  return [config, parallel](const TensorSpec& stored) {
    return TensorSlice(stored, qwen3_shard_rule(config, stored.name), parallel);
  };
}

/// One operation reads both.
void check_read_together(const TensorSpec& a, const TensorSpec& b) {
  if (a.dtype != b.dtype)
    fail(ErrorCode::incompatible, "the text encoder's {} is {}, and {} {}; both must be stored in one dtype", a.name,
         to_string(a.dtype), b.name, to_string(b.dtype));
}

}  // namespace

Qwen3TextEncoder::Qwen3TextEncoder(const Qwen3Config& config, DTypeOf dtype_of, const TensorParallel& parallel)
    : config_(config),
      parallel_(parallel),
      rank_config_(config_of_rank(config, parallel)),
      embedding_{config.prefix + kEmbedding, dtype_of(config.prefix + kEmbedding), {config.vocabulary, config.hidden}},
      weights_(std::move(dtype_of), slices_of_rank(config, parallel)) {
  const std::int64_t needed = Qwen3Config::kHiddenStates.back();
  expects(config_.layers >= needed, "Qwen3TextEncoder: {} layers, {} needed", config_.layers, needed);
  Stack stack{"prompt", Phase::prompt, {}};
  for (std::int64_t i = 0; i < needed; ++i) {
    layers_.push_back(declare_layer(layer_name(i)));
    stack.units.push_back(StreamUnit{layer_name(i), "all", 0, weights_.take_groups()});
  }
  if (config_.norms_last_state()) final_norm_ = weights_.single(config_.prefix + kFinalNorm, {config_.hidden});
  plan_ =
      OffloadPlan{"text_encoder", {BlockList{config_.prefix + kLayers}}, {std::move(stack)}, weights_.take_groups()};
  plan_.validate();
}

std::vector<std::string> Qwen3TextEncoder::unused_tensors() const {
  std::vector<std::string> names{"lm_head.weight"};
  if (final_norm_ == nullptr) names.push_back(config_.prefix + kFinalNorm);
  for (std::int64_t i = Qwen3Config::kHiddenStates.back(); i < config_.layers; ++i)
    names.push_back(layer_name(i) + ".");
  return names;
}

std::string Qwen3TextEncoder::layer_name(std::int64_t index) const {
  return fmt::format("{}{}.{}", config_.prefix, kLayers, index);
}

Qwen3Layer Qwen3TextEncoder::declare_layer(const std::string& layer) {
  const std::int64_t hidden = config_.hidden;
  const Shape q{config_.heads * config_.head_dim, hidden};
  const Shape kv{config_.kv_heads * config_.head_dim, hidden};
  const Shape up{config_.intermediate, hidden};
  const std::string attention = layer + ".self_attn.";
  const std::string mlp = layer + ".mlp.";
  const Qwen3Layer declared{
      weights_.single(layer + ".input_layernorm.weight", {hidden}),
      weights_.fused(
          attention + "qkv_proj.weight",
          {{attention + "q_proj.weight", q}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}}),
      weights_.single(attention + "q_norm.weight", {config_.head_dim}),
      weights_.single(attention + "k_norm.weight", {config_.head_dim}),
      weights_.single(attention + "o_proj.weight", {hidden, config_.heads * config_.head_dim}),
      weights_.single(layer + ".post_attention_layernorm.weight", {hidden}),
      weights_.fused(mlp + "gate_up_proj.weight", {{mlp + "gate_proj.weight", up}, {mlp + "up_proj.weight", up}}),
      weights_.single(mlp + "down_proj.weight", {hidden, config_.intermediate}),
  };
  check_read_together(declared.q_norm->spec(), declared.k_norm->spec());
  return declared;
}

}  // namespace lamina
