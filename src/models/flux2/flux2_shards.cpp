#include "models/flux2/flux2_shards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "models/tensor_name.h"

namespace lamina {
namespace {

using Cut = ShardRule::Cut;

constexpr std::array kTable{
    // Outside the blocks.
    Flux2ShardEntry{"timestep_embedder.linear_1.weight"},
    Flux2ShardEntry{"timestep_embedder.linear_2.weight"},
    Flux2ShardEntry{"guidance_embedder.linear_1.weight"},
    Flux2ShardEntry{"guidance_embedder.linear_2.weight"},
    Flux2ShardEntry{"double_stream_modulation_img.linear.weight"},
    Flux2ShardEntry{"double_stream_modulation_txt.linear.weight"},
    Flux2ShardEntry{"single_stream_modulation.linear.weight"},
    Flux2ShardEntry{"norm_out.linear.weight"},
    Flux2ShardEntry{"x_embedder.weight"},
    Flux2ShardEntry{"context_embedder.weight"},
    Flux2ShardEntry{"proj_out.weight"},
    // Norms of a head, the same for all heads.
    Flux2ShardEntry{"attn.norm_q.weight"},
    Flux2ShardEntry{"attn.norm_k.weight"},
    Flux2ShardEntry{"attn.norm_added_q.weight"},
    Flux2ShardEntry{"attn.norm_added_k.weight"},
    // Double blocks.
    Flux2ShardEntry{"attn.to_q.weight", Cut::rows, 1, 0},
    Flux2ShardEntry{"attn.to_k.weight", Cut::rows, 1, 0},
    Flux2ShardEntry{"attn.to_v.weight", Cut::rows, 1, 0},
    Flux2ShardEntry{"attn.to_out.0.weight", Cut::columns, 1, 0},
    Flux2ShardEntry{"ff.linear_in.weight", Cut::rows, 0, 2},
    Flux2ShardEntry{"ff.linear_out.weight", Cut::columns, 0, 1},
    Flux2ShardEntry{"attn.add_q_proj.weight", Cut::rows, 1, 0},
    Flux2ShardEntry{"attn.add_k_proj.weight", Cut::rows, 1, 0},
    Flux2ShardEntry{"attn.add_v_proj.weight", Cut::rows, 1, 0},
    Flux2ShardEntry{"attn.to_add_out.weight", Cut::columns, 1, 0},
    Flux2ShardEntry{"ff_context.linear_in.weight", Cut::rows, 0, 2},
    Flux2ShardEntry{"ff_context.linear_out.weight", Cut::columns, 0, 1},
    // Single blocks: q | k | v | gate | up, and attention | feed-forward.
    Flux2ShardEntry{"attn.to_qkv_mlp_proj.weight", Cut::rows, 3, 2},
    Flux2ShardEntry{"attn.to_out.weight", Cut::columns, 1, 1},
};

bool divides(std::int64_t degree, const Flux2Config& config) {
  return config.heads % degree == 0 && config.mlp_width % degree == 0;
}

}  // namespace

std::span<const Flux2ShardEntry> flux2_shard_table() noexcept {
  return kTable;
}

ShardRule flux2_shard_rule(const Flux2Config& config, std::string_view tensor) {
  const auto is_entry = [&](const Flux2ShardEntry& entry) { return ends_in_name(tensor, entry.suffix); };
  const auto found = std::ranges::count_if(kTable, is_entry);
  expects(found == 1, "tensor {} has {} rules of tensor parallelism", tensor, found);
  const Flux2ShardEntry& entry = *std::ranges::find_if(kTable, is_entry);
  ShardRule rule{entry.cut, {}};
  rule.groups.insert(rule.groups.end(), static_cast<std::size_t>(entry.width_groups), config.width());
  rule.groups.insert(rule.groups.end(), static_cast<std::size_t>(entry.mlp_groups), config.mlp_width);
  return rule;
}

std::vector<std::int64_t> flux2_tensor_parallel_degrees(const Flux2Config& config) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t degree = 1; degree <= config.heads; ++degree)
    if (divides(degree, config)) degrees.push_back(degree);
  return degrees;
}

void check_flux2_tensor_parallel(const Flux2Config& config, const TensorParallel& parallel) {
  if (parallel.degree >= 1 && divides(parallel.degree, config)) return parallel.validate();
  fail(ErrorCode::incompatible,
       "tensor parallelism of degree {}: the transformer's {} attention heads and {} feed-forward features must divide "
       "by the degree; possible are {}",
       parallel.degree, config.heads, config.mlp_width, fmt::join(flux2_tensor_parallel_degrees(config), ", "));
}

}  // namespace lamina
