#pragma once

#include "cli/generate_flags.h"
#include "lamina/engine.h"

namespace lamina {

/// `lamina generate` with several ranks or prompts: a picture of each prompt. Throws, when all that could be made is
/// written, why others were not.
void generate_on_ranks(const GenerateFlags& flags, const EngineConfig& config);

}  // namespace lamina
