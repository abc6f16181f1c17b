#pragma once

#include <CLI/CLI.hpp>

namespace lamina {

/// `lamina generate MODEL --prompt TEXT ... --output FILE`.
void add_generate_command(CLI::App& app);

}  // namespace lamina
