#pragma once

#include <cstdint>
#include <vector>

#include "lamina/ticket.h"

namespace lamina {

struct RequestSnapshot {
  std::uint64_t id = 0;
  RequestStatus status;
};

/// What an engine is doing.
struct EngineSnapshot {
  std::vector<RequestSnapshot> requests;  ///< queued and running, in order of submission
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
};

}  // namespace lamina
