#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/flux2/flux2_config.h"
#include "weights/tensor_slice.h"

namespace lamina {

// How the FLUX.2 transformer is cut for tensor parallelism. Source: diffusers, the tensor-parallel plan of
// Flux2Transformer2DModel. A rank has its heads of every attention and its share of every feed-forward's features;
// what comes back to the residual stream is a sum over the ranks. With D = width, M = mlp_width.

/// The rule of the tensors whose names end in `suffix`, at the start of a part of the name.
struct Flux2ShardEntry {
  std::string_view suffix;
  ShardRule::Cut cut = ShardRule::Cut::replicated;
  int width_groups = 0;  ///< the cut axis is packed of so many groups of D ...
  int mlp_groups = 0;    ///< ... followed by so many of M
};

/// The entries for all tensors of a transformer; each tensor has exactly one.
std::span<const Flux2ShardEntry> flux2_shard_table() noexcept;

/// Throws internal for a name that has not exactly one entry.
ShardRule flux2_shard_rule(const Flux2Config& config, std::string_view tensor);

/// The degrees by which both heads and feed-forward features divide, ascending from 1.
std::vector<std::int64_t> flux2_tensor_parallel_degrees(const Flux2Config& config);

/// Throws incompatible naming heads, feed-forward width, the degree and the legal ones.
void check_flux2_tensor_parallel(const Flux2Config& config, const TensorParallel& parallel);

}  // namespace lamina
