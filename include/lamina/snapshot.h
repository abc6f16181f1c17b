#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lamina/ticket.h"

namespace lamina {

struct RequestSnapshot {
  std::uint64_t id = 0;
  RequestStatus status;
};

/// A rank of this process. Counts are those since it was loaded.
struct RankSnapshot {
  std::size_t rank = 0;
  std::string device;  ///< "cpu", "cuda:0"
  std::size_t device_used_bytes = 0;
  std::size_t device_peak_bytes = 0;
  std::optional<std::size_t> device_limit_bytes;
  std::size_t host_bytes = 0;  ///< pinned for weights of this rank alone
  std::uint64_t passes = 0;
  std::size_t copied_bytes = 0;    ///< over its link, of passes
  std::size_t gathered_bytes = 0;  ///< of units that came whole from all ranks
  double stall_seconds = 0;
  double last_pass_seconds = 0;  ///< from pass to pass; 0 before the second
};

/// What an engine is doing.
struct EngineSnapshot {
  std::vector<RequestSnapshot> requests;  ///< queued and running, in order of submission
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::vector<RankSnapshot> ranks;  ///< of this process
  std::size_t prompt_cache_bytes = 0;
  std::uint64_t prompt_cache_hits = 0;
  std::uint64_t prompt_cache_misses = 0;
};

}  // namespace lamina
