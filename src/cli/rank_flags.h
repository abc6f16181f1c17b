#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "engine/ranked_setup.h"

namespace lamina {

/// The flags that describe several ranks and what they share.
struct RankFlags {
  ParallelConfig parallel;
  std::size_t gather_chunks = 1;
  std::string wave_policy = "ragged";

  /// To a command that has the engine's flags.
  void add_to(CLI::App& command);
  bool are_several() const { return parallel.sizes.data != 1; }
  /// After parsing.
  RankedConfig parsed(const EngineConfig& engine) const;
};

}  // namespace lamina
