#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/topology.h"
#include "lamina/engine.h"

namespace lamina {

/// What the compatibility matrix speaks of; its rows and columns.
enum class Feature {
  data_parallel,
  sequence_parallel,
  tensor_parallel,
  hsdp,
  cpu_offload,
  layerwise_offload,
  dlo,
  all_gather,
  residents,
  residents_rejected,
  strict_waves,
  co_batching,
};
inline constexpr std::size_t kFeatureCount = 12;

struct FeatureInfo {
  Feature feature;
  std::string_view flag;
  std::string_view meaning;
  std::optional<Feature> needs;  ///< without it the flag has no effect
  bool (*is_set)(const EngineConfig&);
};

enum class Verdict { combine, overridden, refused };

/// What two features do together. Where one is overridden, that is the second.
struct Cell {
  Feature first;
  Feature second;
  Verdict verdict;
  std::string_view reason;   ///< a clause: why, or how they combine
  std::string_view way_out;  ///< of a refusal: what to do instead
};

/// The rows, in the order of `Feature`.
const std::array<FeatureInfo, kFeatureCount>& features();
/// The cells that say more than "combine"; every other pair does that.
const std::vector<Cell>& compatibility_cells();
/// What two features do, together with those they need: the cells behind the harshest verdict, none for "combine".
std::vector<Cell> judge(Feature one, Feature other);

/// What of a configuration takes effect.
struct EffectiveParallelism {
  Topology topology;
  EngineConfig config;             ///< without what is overridden
  bool gathers_weights = false;    ///< DLO all-gather over a group of more than one rank
  std::vector<std::string> notes;  ///< what has no effect or was overridden, and why, one sentence each
};

/// Validates a configuration whole; no device is touched. Throws incompatible with one sentence for each pair that is
/// refused, flags and way out, or invalid_argument for a size.
EffectiveParallelism resolve(const EngineConfig& config);

/// docs/compatibility.md.
std::string compatibility_document();

}  // namespace lamina
