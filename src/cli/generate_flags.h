#pragma once

#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "cli/input_files.h"
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
  std::string noise_dtype = "auto";
  std::string generator_device = "cpu";
  std::string vae_tiling = "auto";
  std::string output;
  std::string save_tensors;
  std::string report;
  std::string trace;
};

/// The files that the command reads. Throws invalid_argument where `--save-tensors`, `--report`, `--trace` or
/// `--output` names one of them.
InputFiles inputs_of(const GenerateFlags& flags);

}  // namespace lamina
