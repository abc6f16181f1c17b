#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/ranks/ranked_setup.h"
#include "lamina/generate.h"

namespace lamina::test {

/// The transformer of the micro fixture alone, or its first blocks: prompt embeddings go in, latents come out.
std::filesystem::path micro_transformer(const std::filesystem::path& folder, int double_blocks = 2,
                                        int single_blocks = 2);

/// Ranks that run it on CPU devices, released bytes poisoned.
EngineConfig micro_ranks(const std::filesystem::path& model, const ParallelSizes& sizes);

/// For that transformer: of random embeddings, with an odd number of tokens for an odd number of `columns`.
GenerateRequest micro_request(std::uint64_t seed, std::int64_t columns, std::int64_t steps);

/// Runs the request on a device of its own, with everything resident.
std::vector<float> lone_latents(const std::filesystem::path& model, const GenerateRequest& request);

}  // namespace lamina::test
