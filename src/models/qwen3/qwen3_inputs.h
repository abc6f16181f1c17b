#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/qwen3/qwen3_config.h"
#include "models/rope_table.h"
#include "tensor/tensor_view.h"

namespace lamina {

// What the text encoder reads, computed on the host.

/// Angles position * theta^(-2j / head_dim) of positions 0 .. tokens - 1, in single precision.
/// Source: transformers, Qwen3RotaryEmbedding.
RopeTable qwen3_rope_table(const Qwen3Config& config, std::int64_t tokens);

/// The rows `ids` of an embedding matrix [vocabulary, hidden] on the host (f32, bf16 or f16, maybe unaligned), as f32
/// [ids, hidden]. Throws incompatible naming the id where it is no row.
std::vector<float> gather_embeddings(const ConstTensorView& table, std::span<const std::int32_t> ids);

}  // namespace lamina
