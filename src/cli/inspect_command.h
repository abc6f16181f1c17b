#pragma once

#include <CLI/CLI.hpp>

namespace lamina {

/// `lamina inspect MODEL [--json] [--memory]`.
void add_inspect_command(CLI::App& app);

}  // namespace lamina
