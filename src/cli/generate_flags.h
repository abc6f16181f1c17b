#pragma once

#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "cli/rank_flags.h"
#include "lamina/generate.h"

namespace lamina {

/// What `lamina generate` was asked for.
struct GenerateFlags {
  EngineFlags engine;
  RankFlags ranks;
  GenerateRequest request;
  std::vector<std::string> images;
  std::string prompts;
  std::string prompt_embeds;
  std::string noise_dtype = "float32";
  std::string vae_tiling = "auto";
  std::string output;
  std::string save_tensors;
  std::string report;
  std::string trace;
};

}  // namespace lamina
