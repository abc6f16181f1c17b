#pragma once

#include <CLI/CLI.hpp>

namespace lamina {

/// `lamina bench`: what a step costs resident and streamed, beside the floors of the same run.
void add_bench_command(CLI::App& app);

}  // namespace lamina
