#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/generate.h"

namespace lamina {

/// Whether the request brings embeddings in place of a prompt. Throws invalid_argument where it brings both, or
/// embeddings of two kinds.
bool gives_embeddings(const GenerateRequest& request);

/// The request's embeddings, [512, channels] for each of 1 or 2 branches: `prompt_embeds`, and with guidance
/// `negative_prompt_embeds` behind it. Random ones are drawn as noise is, with mean 0 and variance 1. Throws not_found,
/// incompatible or corrupt naming file and tensor.
std::vector<std::vector<float>> prompt_embeddings(const GenerateRequest& request, std::int64_t channels,
                                                  std::size_t branches);

}  // namespace lamina
