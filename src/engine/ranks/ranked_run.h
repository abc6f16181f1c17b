#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/rank_connector.h"
#include "comm/topology.h"
#include "device/device.h"
#include "engine/lockstep/group_schedule.h"
#include "engine/ranks/pass_runner.h"
#include "lamina/generate.h"
#include "models/model_groups.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// The ranks of a topology, each a thread with a device of its own, of this process or of several.
struct RankedSetup {
  Topology topology{ParallelSizes{}};
  std::shared_ptr<RankConnector> connector;  ///< of the topology's ranks
  /// Both are called on the rank's thread.
  std::function<std::unique_ptr<Device>(std::size_t rank)> create_device;
  std::function<std::unique_ptr<Pipeline>(const ModelGroups& groups)> open_pipeline;
  std::string model;  ///< tells it from others: ranks of one group have the same
  /// What else all processes must have been given alike, by name.
  std::vector<std::pair<std::string, std::string>> also_alike;
  OffloadOptions offload;
  /// The ranks that hold one copy of the weights together and gather them: the offload group, whose replicas go from
  /// pass to pass together, or the shard group. Unset: each rank copies whole units, and each replica goes its own way.
  std::optional<GroupKind> weights;
  std::size_t chunks = 1;  ///< of each gathered unit
  ShardPlace shards = ShardPlace::host;
  std::size_t samples_per_replica = 1;
  WavePolicy wave_policy = WavePolicy::ragged;
};

/// How a request ended: with a result, in the process of the rank that made it; or with a reason, in that of its
/// lockstep group's first rank.
struct RankedOutcome {
  std::optional<GenerateResult> result;  ///< without a report of its own
  std::size_t rank = 0;                  ///< that made the result
  std::optional<Failure> failure;
};

struct RankReport {
  RankTotals totals;
  std::optional<Fault> fault;  ///< with which it ended: the first of its lockstep group
  bool has_served = false;     ///< all that it was given
};

struct RankedRun {
  std::vector<RankedOutcome> outcomes;   ///< by request
  LocalRanks local;                      ///< the ranks of this process
  std::vector<RankReport> ranks;         ///< those, in order
  std::vector<CouplingReport> coupling;  ///< of each lockstep group; empty for those without one of them
  /// Pinned once for all ranks of this process; comes on top of theirs.
  std::size_t shared_host_bytes = 0;
};

/// How far the requests are that this process's ranks have to do with.
struct RankedProgress {
  std::size_t passes = 0;  ///< that samples have gone through
  std::size_t total = 0;   ///< that all of them take, unless some end early
};

/// What a run tells and asks meanwhile; either may be unset.
struct RankedHooks {
  /// Called by the process's first rank behind each of its passes; what it throws is a fault of that rank.
  std::function<void(const RankedProgress&)> passed;
  /// Whether a request, told by its index, is to be given up at the next boundary of passes. Asked before each round of
  /// a lockstep group in the process of its first rank, by the threads of several groups at a time.
  std::function<bool(std::size_t request)> is_cancelled;
};

/// Serves all requests, spread over the replicas, and ends. Every process of the ranks calls it with the same requests.
/// A request whose own values fail ends with that reason, one that is cancelled as `cancelled`; neither changes a byte
/// of others. A fault ends its lockstep group, at once unless a rank hangs; the requests of others are served.
RankedRun run_on_ranks(const RankedSetup& setup, const std::vector<GenerateRequest>& requests,
                       const RankedHooks& hooks = {});

/// Requests that are served together.
struct RankedBatch {
  std::vector<GenerateRequest> requests;
  RankedHooks hooks;  ///< told and asked while the batch is served
};

/// Serves one batch behind the other, each as `run_on_ranks` does, on ranks that load their weights once. A group that
/// a fault has ended serves no further batch; they all end with its reason.
std::vector<RankedRun> run_batches_on_ranks(const RankedSetup& setup, const std::vector<RankedBatch>& batches);

/// Per-rank bytes, stall and coupling as JSON.
std::string report_json(const RankedRun& run);

}  // namespace lamina
