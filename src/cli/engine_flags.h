#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "lamina/engine.h"

namespace lamina {

/// The flags that describe an engine, shared by the commands that make one.
struct EngineFlags {
  EngineConfig config;
  std::vector<std::string> loras;
  std::optional<std::string> device_memory;
  std::optional<std::string> host_memory;
  std::string dtype = "auto";
  std::string resident_policy = "leading";
  std::string host_backing = "auto";

  /// Adds MODEL and the offload flags to a command. A flag that another one must accompany is an error without it.
  void add_to(CLI::App& command);
  /// Adds the flags that shape streaming; each is an error without `dlo`, where that is given.
  void add_streaming_to(CLI::App& command, CLI::Option* dlo);
  /// Adds --device alone.
  void add_device_choice_to(CLI::App& command);
  /// Adds those that speak of the device.
  void add_device_to(CLI::App& command);
  /// The configuration, after parsing. Throws invalid_argument naming the flag.
  EngineConfig parsed() const;
};

}  // namespace lamina
