#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/ranks/ranked_setup.h"

namespace lamina {

/// What is measured of a load: so many requests at a time on each replica, or one on the first alone.
struct BenchRow {
  std::string mode;
  std::size_t samples = 1;
  bool alone = false;  ///< the other replicas are idle
};

/// Ranks that load their weights once, and the rows that are measured with them.
struct BenchLoad {
  EngineConfig config;
  std::vector<BenchRow> rows;
  /// The mode that tells what a sample's step computes, and among how many ranks its work is divided further.
  std::string compute_of;
  std::size_t divided = 1;
};

/// The loads of the modes named, of as many ranks as `config` asks for. Rows of one load are neighbours; what tells the
/// compute of others comes before them.
std::vector<BenchLoad> bench_loads(const EngineConfig& config, const std::vector<std::string>& modes);

}  // namespace lamina
