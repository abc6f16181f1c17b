#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/qwen3/qwen3_config.h"
#include "weights/tensor_slice.h"

namespace lamina {

// How the text encoder's layers are cut for tensor parallelism: a rank has its query heads with the key heads that they
// read, and its share of the feed-forward's features; what comes back to the residual stream is a sum over the ranks.
// Embeddings are gathered on the host and not cut. Source: transformers, the tensor-parallel plan of Qwen3Config.

/// The rule of the tensors whose names end in `suffix`, at the start of a part of the name.
struct Qwen3ShardEntry {
  std::string_view suffix;
  ShardRule::Cut cut = ShardRule::Cut::replicated;
  std::int64_t (*extent)(const Qwen3Config&) = nullptr;  ///< of the cut axis
};

/// The entries for all tensors of the layers; each tensor has exactly one.
std::span<const Qwen3ShardEntry> qwen3_shard_table() noexcept;

/// Throws internal for a name that has not exactly one entry.
ShardRule qwen3_shard_rule(const Qwen3Config& config, std::string_view tensor);

/// The degrees by which query heads, key heads and feed-forward features divide, ascending from 1.
std::vector<std::int64_t> qwen3_tensor_parallel_degrees(const Qwen3Config& config);

/// Throws incompatible naming heads, key heads, feed-forward width, the degree and the legal ones.
void check_qwen3_tensor_parallel(const Qwen3Config& config, const TensorParallel& parallel);

}  // namespace lamina
