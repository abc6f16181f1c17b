#include "models/qwen3/qwen3_shards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "models/tensor_name.h"

namespace lamina {
namespace {

using Cut = ShardRule::Cut;

std::int64_t query_features(const Qwen3Config& config) {
  return config.heads * config.head_dim;
}

std::int64_t key_features(const Qwen3Config& config) {
  return config.kv_heads * config.head_dim;
}

std::int64_t feed_forward_features(const Qwen3Config& config) {
  return config.intermediate;
}

constexpr std::array kTable{
    Qwen3ShardEntry{"input_layernorm.weight"},
    Qwen3ShardEntry{"post_attention_layernorm.weight"},
    Qwen3ShardEntry{"norm.weight"},
    // Norms of a head, the same for all heads.
    Qwen3ShardEntry{"self_attn.q_norm.weight"},
    Qwen3ShardEntry{"self_attn.k_norm.weight"},
    Qwen3ShardEntry{"self_attn.q_proj.weight", Cut::rows, &query_features},
    Qwen3ShardEntry{"self_attn.k_proj.weight", Cut::rows, &key_features},
    Qwen3ShardEntry{"self_attn.v_proj.weight", Cut::rows, &key_features},
    Qwen3ShardEntry{"self_attn.o_proj.weight", Cut::columns, &query_features},
    Qwen3ShardEntry{"mlp.gate_proj.weight", Cut::rows, &feed_forward_features},
    Qwen3ShardEntry{"mlp.up_proj.weight", Cut::rows, &feed_forward_features},
    Qwen3ShardEntry{"mlp.down_proj.weight", Cut::columns, &feed_forward_features},
};

bool divides(std::int64_t degree, const Qwen3Config& config) {
  return config.heads % degree == 0 && config.kv_heads % degree == 0 && config.intermediate % degree == 0;
}

}  // namespace

std::span<const Qwen3ShardEntry> qwen3_shard_table() noexcept {
  return kTable;
}

ShardRule qwen3_shard_rule(const Qwen3Config& config, std::string_view tensor) {
  const auto is_entry = [&](const Qwen3ShardEntry& entry) { return ends_in_name(tensor, entry.suffix); };
  const auto found = std::ranges::count_if(kTable, is_entry);
  expects(found == 1, "tensor {} has {} rules of tensor parallelism", tensor, found);
  const Qwen3ShardEntry& entry = *std::ranges::find_if(kTable, is_entry);
  if (entry.cut == Cut::replicated) return {};
  return {entry.cut, {entry.extent(config)}};
}

std::vector<std::int64_t> qwen3_tensor_parallel_degrees(const Qwen3Config& config) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t degree = 1; degree <= config.kv_heads; ++degree)
    if (divides(degree, config)) degrees.push_back(degree);
  return degrees;
}

void check_qwen3_tensor_parallel(const Qwen3Config& config, const TensorParallel& parallel) {
  if (parallel.degree >= 1 && divides(parallel.degree, config)) return parallel.validate();
  fail(ErrorCode::incompatible,
       "tensor parallelism of degree {}: the text encoder's {} attention heads, {} key/value heads and {} feed-forward "
       "features must divide by the degree; possible are {}",
       parallel.degree, config.heads, config.kv_heads, config.intermediate,
       fmt::join(qwen3_tensor_parallel_degrees(config), ", "));
}

}  // namespace lamina
