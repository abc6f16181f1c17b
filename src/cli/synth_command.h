#pragma once

#include <CLI/CLI.hpp>

namespace lamina {

/// `lamina synth --family flux2 --size SIZE ... OUT`.
void add_synth_command(CLI::App& app);

}  // namespace lamina
