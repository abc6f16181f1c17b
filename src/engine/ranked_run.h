#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "engine/group_schedule.h"
#include "engine/pass_runner.h"
#include "lamina/generate.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// Replicas as threads of this process, one device each.
struct RankedSetup {
  std::function<std::unique_ptr<Device>(std::size_t rank)> create_device;  ///< called on a rank's thread
  std::function<std::unique_ptr<Pipeline>()> open_pipeline;                ///< the same
  OffloadOptions offload;
  std::size_t replicas = 1;
  /// All replicas hold one copy of the streamed weights together and gather them; they go from pass to pass together.
  /// Off: each has its own, and goes its own way.
  bool gathers_weights = false;
  std::size_t chunks = 1;  ///< of each gathered unit
  ShardPlace shards = ShardPlace::host;
  /// Connects the devices of so many ranks, where they gather weights. Unset: threads on CPU devices.
  std::function<std::vector<std::unique_ptr<Communicator>>(std::size_t ranks)> connect;
  std::size_t samples_per_replica = 1;
  WavePolicy wave_policy = WavePolicy::ragged;
  /// How long a rank waits for the others in a collective of a pass. A thread that fails says so at once; this is for
  /// one that hangs, and longer than any rank takes for a unit or a picture's decoding.
  std::chrono::milliseconds collective_limit = std::chrono::minutes(10);
};

/// How a request ended: with a result, or with a reason.
struct RankedOutcome {
  std::optional<GenerateResult> result;  ///< without a report of its own
  std::size_t rank = 0;                  ///< that made the result
  std::optional<Failure> failure;
};

struct RankReport {
  RankTotals totals;
  std::optional<Fault> fault;  ///< with which it ended: the first of its lockstep group
};

struct RankedRun {
  std::size_t shared_host_bytes = 0;    ///< pinned once for all ranks of this process; comes on top of theirs
  std::vector<RankedOutcome> outcomes;  ///< by request
  std::vector<RankReport> ranks;
  std::vector<CouplingReport> coupling;  ///< of each lockstep group
};

/// Serves all requests, spread over the replicas, and ends. `passed` is called by the first rank behind each of its
/// passes; what it throws is a fault of that rank. A fault ends its lockstep group, at once unless a rank hangs; the
/// requests of others are served.
RankedRun run_on_ranks(const RankedSetup& setup, const std::vector<GenerateRequest>& requests,
                       const std::function<void()>& passed = {});

/// Per-rank bytes, stall and coupling as JSON.
std::string report_json(const RankedRun& run);

}  // namespace lamina
