#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lamina/error.h"

namespace lamina {

// The words in which the ranks of a lockstep group talk about passes. All of it is plain data that travels between
// processes; docs/adr/0007 tells the protocol.

/// Given by the group's leader, ascending in the order of arrival.
using RequestId = std::uint64_t;

/// Why a request, or a group, came to a bad end.
struct Failure {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  bool operator==(const Failure&) const = default;
};

/// A stretch of a request: some traversals of one stack.
struct Leg {
  std::size_t stack = 0;                  ///< index into the group's stacks, which are the same on all ranks
  std::size_t passes = 0;                 ///< at least 1
  std::chrono::nanoseconds pass_time{0};  ///< predicted compute of one pass
  bool operator==(const Leg&) const = default;
};

/// What all ranks know of a request.
struct ScheduledRequest {
  RequestId id = 0;
  std::vector<Leg> legs;                      ///< encode the prompt, denoise, ...; at least one
  std::optional<std::size_t> explicit_steps;  ///< the number of steps, where the request gave it
  std::string payload;                        ///< from which a rank prepares the sample; means nothing here
  bool operator==(const ScheduledRequest&) const = default;
};

/// Whether a rank has reserved the activation memory of a sample.
struct ReserveVote {
  enum class Answer : std::uint8_t {
    held,
    not_now,  ///< others hold what it needs
    never,    ///< more than the rank has
  };
  RequestId id = 0;
  Answer answer = Answer::held;
  Failure failure;  ///< why, with numbers, unless held
  bool operator==(const ReserveVote&) const = default;
};

struct SampleFailure {
  RequestId id = 0;
  Failure failure;
  bool operator==(const SampleFailure&) const = default;
};

/// What one rank tells the others in one round. Only the leader has arrivals, cancellations and the end to tell.
struct Proposal {
  std::vector<ScheduledRequest> arrivals;
  std::vector<RequestId> cancellations;
  bool stop = false;  ///< end as soon as everything that arrived is served
  std::vector<ReserveVote> votes;
  std::vector<SampleFailure> failures;
  bool operator==(const Proposal&) const = default;
};

/// A sample's part in a pass.
struct Seat {
  RequestId id = 0;
  std::size_t leg = 0;
  std::size_t pass_of_leg = 0;
  bool joins = false;   ///< its first pass
  bool leaves = false;  ///< its last one
  bool operator==(const Seat&) const = default;
};

/// One traversal of one stack by the whole group.
struct PassPlan {
  std::uint64_t number = 0;  ///< the first pass is 1
  std::size_t stack = 0;
  std::vector<std::vector<Seat>> replicas;  ///< who takes part; a replica without seats only gathers
  bool operator==(const PassPlan&) const = default;
};

/// The ranks of a replica are to reserve a sample's memory, and tell the outcome in the next round.
struct Placement {
  RequestId id = 0;
  std::size_t replica = 0;
  bool operator==(const Placement&) const = default;
};

/// A request is over: completed, unless it failed, was cancelled or refused.
struct Settlement {
  RequestId id = 0;
  std::optional<Failure> failure;
  bool operator==(const Settlement&) const = default;
};

/// What a round decided, the same on all ranks.
struct Decision {
  std::uint64_t round = 0;
  std::optional<PassPlan> pass;         ///< what follows the passes decided so far; none: nothing, for now
  std::vector<Settlement> settlements;  ///< their memory is free
  std::vector<RequestId> withdrawals;   ///< reservations that not all ranks hold are given up
  std::vector<Placement> placements;
  bool ends = false;  ///< there will be no further round
  bool operator==(const Decision&) const = default;
};

/// A rank's device or process is lost, and with it the group.
struct Fault {
  std::size_t rank = 0;  ///< where it happened first
  Failure failure;
  bool operator==(const Fault&) const = default;
};

}  // namespace lamina
