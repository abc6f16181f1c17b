#include "engine/bench/bench_modes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "engine/bench/mode_benchmark.h"

namespace lamina {
namespace {

constexpr std::size_t kCoBatches[] = {1, 2, 4, 8};

/// Which ranks there are in a mode, and what they do with the weights.
struct ModeLayout {
  ParallelSizes sizes;
  bool streams = true;
  bool gathers = false;
};

EngineConfig arrange(EngineConfig config, const ModeLayout& layout, std::size_t samples = 1) {
  config.enable_distributed_layerwise_offload = layout.streams;
  config.parallel.sizes = layout.sizes;
  config.parallel.dlo_use_allgather = layout.gathers;
  config.parallel.max_concurrent_requests_per_replica = samples;
  if (!layout.streams) config.dlo_resident_layers = 0;
  return config;
}

class LoadList {
 public:
  LoadList(const EngineConfig& config, const std::vector<std::string>& modes)
      : config_(config), modes_(modes), ranks_(Topology(config.parallel.sizes).world_size()) {}

  std::vector<BenchLoad> all() {
    const ParallelSizes data{.data = ranks_};
    const ParallelSizes sequence{.sequence = ranks_};
    const ParallelSizes tensor{.tensor = ranks_};
    const ParallelSizes shards{.use_hsdp = true, .hsdp_shard = ranks_};
    add({"resident"}, {data, false}, "resident");
    add({"local"}, {data}, "resident");
    add({"gather", "idle"}, {data, true, true}, "resident");
    add_co_batched({data, true, ranks_ > 1});
    add({"sp-resident"}, {sequence, false}, "resident", ranks_);
    add({"sp"}, {sequence, true, true}, compute_of("sp-resident"), divided_unless("sp-resident"));
    add({"sp-local"}, {sequence}, compute_of("sp-resident"), divided_unless("sp-resident"));
    add({"tp-resident"}, {tensor, false}, "resident", ranks_);
    add({"tp"}, {tensor}, compute_of("tp-resident"), divided_unless("tp-resident"));
    add({"hsdp"}, {shards, false}, "resident");
    add({"hsdp-host"}, {shards}, "resident");
    if (asks_for("given"))
      loads_.push_back({config_, {{"given", config_.parallel.max_concurrent_requests_per_replica}}, "resident"});
    return std::move(loads_);
  }

 private:
  bool asks_for(const std::string& mode) const { return std::ranges::find(modes_, mode) != modes_.end(); }
  std::string compute_of(const std::string& mode) const { return asks_for(mode) ? mode : "resident"; }
  std::size_t divided_unless(const std::string& mode) const { return asks_for(mode) ? 1 : ranks_; }

  /// One load for those of the rows that are asked for.
  void add(const std::vector<std::string>& rows, const ModeLayout& layout, const std::string& compute,
           std::size_t divided = 1) {
    BenchLoad load{arrange(config_, layout), {}, compute, divided};
    for (const std::string& row : rows)
      if (asks_for(row)) load.rows.push_back({.mode = row, .alone = row == "idle"});
    if (!load.rows.empty()) loads_.push_back(std::move(load));
  }

  void add_co_batched(const ModeLayout& layout) {
    if (!asks_for("cobatch")) return;
    BenchLoad load{arrange(config_, layout, std::ranges::max(kCoBatches)), {}, "resident"};
    for (const std::size_t samples : kCoBatches)
      load.rows.push_back({.mode = fmt::format("cobatch-{}", samples), .samples = samples});
    loads_.push_back(std::move(load));
  }

  const EngineConfig& config_;
  const std::vector<std::string>& modes_;
  std::size_t ranks_;
  std::vector<BenchLoad> loads_;
};

}  // namespace

const std::vector<std::string>& bench_mode_names() {
  static const std::vector<std::string> kNames{"resident", "local",    "gather",      "idle", "cobatch", "sp-resident",
                                               "sp",       "sp-local", "tp-resident", "tp",   "hsdp",    "hsdp-host"};
  return kNames;
}

void check_modes(const EngineConfig& config, const ModeBenchmarkRequest& request) {
  const std::size_t ranks = Topology(config.parallel.sizes).world_size();
  for (const std::string& mode : request.modes) {
    if (mode == "given" || mode == "resident" || mode == "local" || mode == "cobatch") continue;
    if (std::ranges::find(bench_mode_names(), mode) == bench_mode_names().end())
      fail(ErrorCode::invalid_argument, "--modes {}: expected all or some of {}", mode,
           fmt::join(bench_mode_names(), ", "));
    if (ranks < 2)
      fail(ErrorCode::invalid_argument, "--modes {}: it takes several ranks; add --data-parallel-size 2 or more", mode);
  }
}

std::vector<BenchLoad> bench_loads(const EngineConfig& config, const std::vector<std::string>& modes) {
  return LoadList(config, modes).all();
}

}  // namespace lamina
