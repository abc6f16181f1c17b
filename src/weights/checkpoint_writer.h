#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_spec.h"

namespace lamina {

/// The bytes of `tensor` from `offset_bytes` on, a whole number of elements.
using TensorFiller =
    std::function<void(const TensorSpec& tensor, std::size_t offset_bytes, std::span<std::byte> bytes)>;

/// Runs of consecutive tensors, about equal in bytes and none empty: shard i holds the tensors [begin[i], begin[i+1]).
/// `begin` has shards + 1 entries. Throws invalid_argument unless there are 1 to `tensors.size()` shards.
std::vector<std::size_t> split_into_shards(std::span<const TensorSpec> tensors, std::size_t shards);

/// Writes the tensors into `folder` as `Checkpoint::open(folder, stem)` reads them: one file, or shards with an index.
/// The bytes are asked for in pieces of at most a MiB, in order, so little memory is needed however large the
/// checkpoint is. Throws as `split_into_shards` and `AtomicFile` do; files that are done stay behind then.
void write_checkpoint(const std::filesystem::path& folder, const std::string& stem, std::span<const TensorSpec> tensors,
                      std::size_t shards, const TensorFiller& fill);

}  // namespace lamina
