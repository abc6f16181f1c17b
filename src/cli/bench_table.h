#pragma once

#include <string>

#include "engine/bench/benchmark.h"

namespace lamina {

/// A benchmark for people. docs/benchmarks.md defines every column.
std::string benchmark_table(const BenchmarkResult& result);

}  // namespace lamina
