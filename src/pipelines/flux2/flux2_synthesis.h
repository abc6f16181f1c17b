#pragma once

#include "pipelines/synthesis.h"

namespace lamina {

/// FLUX.2 in the sizes klein-4b, klein-9b and dev, or that of a transformer's config.json. Throws as `plan_synthesis`
/// does. The text encoder is Qwen3 with the layers that FLUX.2 reads, so dev has none here; a tokenizer is never part
/// of the model, for its vocabulary is not to be had.
SynthesisPlan plan_flux2_synthesis(const SynthesisRequest& request);

}  // namespace lamina
