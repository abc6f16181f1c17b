#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "lamina/parallel.h"

namespace lamina {

/// The flags that describe several ranks and what they share.
struct RankFlags {
  ParallelConfig parallel;
  std::string wave_policy = "ragged";
  std::string residents_with_gather = "keep";

  /// To a command that has the engine's flags.
  void add_to(CLI::App& command);
  /// To the command that times steps, which streams whatever the flags say.
  void add_to_benchmark(CLI::App& command);
  /// Whether they, or a launcher, ask for other than one rank.
  bool are_several() const;
  /// After parsing.
  ParallelConfig parsed() const;

 private:
  void add_sizes_to(CLI::App& command);
  void add_concurrency_to(CLI::App& command);
  /// Each flag is an error without `dlo`, where that is given.
  void add_streaming_to(CLI::App& command, CLI::Option* dlo);
};

}  // namespace lamina
