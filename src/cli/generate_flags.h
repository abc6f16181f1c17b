#pragma once

#include <string>
#include <string_view>

#include "cli/engine_flags.h"
#include "cli/rank_flags.h"
#include "lamina/generate.h"

namespace lamina {

/// What `lamina generate` was asked for.
struct GenerateFlags {
  EngineFlags engine;
  RankFlags ranks;
  GenerateRequest request;
  std::string prompts;
  std::string prompt_embeds;
  std::string noise_dtype = "float32";
  std::string vae_tiling = "auto";
  std::string output;
  std::string save_tensors;
  std::string report;
  std::string trace;
};

/// Refuses two flags that name one regular file: the second write would destroy the first.
void refuse_shared_file(std::string_view flag, const std::string& file, std::string_view other_flag,
                        const std::string& other);

}  // namespace lamina
