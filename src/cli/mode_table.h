#pragma once

#include <string>

#include "engine/bench/mode_benchmark.h"

namespace lamina {

/// Modes beside each other, for people. docs/benchmarks.md defines every column.
std::string mode_table(const ModeBenchmark& benchmark);

std::string mode_table_header();
std::string mode_table_row(const ModeMeasurement& row);

}  // namespace lamina
