#include "engine/config/compatibility.h"

#include <algorithm>
#include <bitset>

#include "base/error.h"

namespace lamina {
namespace {

using FeatureSet = std::bitset<kFeatureCount>;

std::size_t index_of(Feature feature) {
  return static_cast<std::size_t>(feature);
}
const FeatureInfo& info_of(Feature feature) {
  return features()[index_of(feature)];
}

/// A feature and what it needs, directly or not.
FeatureSet with_needs(Feature feature) {
  FeatureSet set;
  for (std::optional<Feature> next = feature; next; next = info_of(*next).needs) set.set(index_of(*next));
  return set;
}

bool speaks_of(const Cell& cell, const FeatureSet& one, const FeatureSet& other) {
  const std::size_t first = index_of(cell.first);
  const std::size_t second = index_of(cell.second);
  return (one[first] && other[second]) || (one[second] && other[first]);
}

FeatureSet features_set(const EngineConfig& config) {
  FeatureSet set;
  for (const FeatureInfo& info : features()) set[index_of(info.feature)] = info.is_set(config);
  return set;
}

/// Takes out what has no effect because something it needs is missing, and what is overridden.
FeatureSet effective(FeatureSet set, std::vector<std::string>& notes) {
  for (const FeatureInfo& info : features())
    if (set[index_of(info.feature)] && info.needs && !set[index_of(*info.needs)]) {
      set.reset(index_of(info.feature));
      notes.push_back(fmt::format("{} has no effect without {}", info.flag, info_of(*info.needs).flag));
    }
  for (const Cell& cell : compatibility_cells())
    if (cell.verdict == Verdict::overridden && set[index_of(cell.first)] && set[index_of(cell.second)]) {
      set.reset(index_of(cell.second));
      notes.push_back(
          fmt::format("{} is overridden by {}: {}", info_of(cell.second).flag, info_of(cell.first).flag, cell.reason));
    }
  return set;
}

void refuse_conflicts(const FeatureSet& set) {
  std::string sentences;
  for (const Cell& cell : compatibility_cells())
    if (cell.verdict == Verdict::refused && set[index_of(cell.first)] && set[index_of(cell.second)])
      sentences += fmt::format("{}{} and {} exclude each other: {}; {}.", sentences.empty() ? "" : " ",
                               info_of(cell.first).flag, info_of(cell.second).flag, cell.reason, cell.way_out);
  if (!sentences.empty()) fail(ErrorCode::incompatible, "{}", sentences);
}

void check_counts(const EngineConfig& config) {
  if (config.parallel.max_concurrent_requests_per_replica < 1)
    fail(ErrorCode::invalid_argument, "--max-concurrent-requests-per-replica 0: expected at least 1");
  if (config.parallel.text_encoder_tp > 1 && config.parallel.text_encoder_tp != config.parallel.sizes.tensor)
    fail(ErrorCode::invalid_argument, "--text-encoder-tp-size {}: expected 1, or --tensor-parallel-size {}",
         config.parallel.text_encoder_tp, config.parallel.sizes.tensor);
}

}  // namespace

std::vector<Cell> judge(Feature one, Feature other) {
  std::vector<Cell> harshest;
  for (const Cell& cell : compatibility_cells()) {
    if (cell.verdict == Verdict::combine || !speaks_of(cell, with_needs(one), with_needs(other))) continue;
    if (!harshest.empty() && harshest.front().verdict > cell.verdict) continue;
    if (!harshest.empty() && harshest.front().verdict < cell.verdict) harshest.clear();
    harshest.push_back(cell);
  }
  return harshest;
}

EffectiveParallelism resolve(const EngineConfig& config) {
  std::vector<std::string> notes;
  const FeatureSet set = effective(features_set(config), notes);
  refuse_conflicts(set);
  check_counts(config);

  EffectiveParallelism result{.topology = Topology(config.parallel.sizes), .config = config, .notes = std::move(notes)};
  result.config.parallel.enable_cpu_offload = set[index_of(Feature::cpu_offload)];
  result.config.parallel.enable_layerwise_offload = set[index_of(Feature::layerwise_offload)];
  if (!set[index_of(Feature::all_gather)]) return result;
  result.gathers_weights = result.topology.group(GroupKind::offload, 0).size() > 1;
  if (!result.gathers_weights)
    result.notes.push_back("--dlo-use-allgather has no effect: the offload group is one rank, no collective runs");
  return result;
}

}  // namespace lamina
