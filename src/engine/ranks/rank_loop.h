#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "comm/host_exchange.h"
#include "engine/lockstep/pass_scheduler.h"
#include "engine/ranks/pass_runner.h"

namespace lamina {

/// Carries out what a rank's scheduler tells it, on the rank's own thread: enters rounds, runs passes, holds samples.
/// The thread blocks in a round where the passes enqueued so far keep the device busy, or nothing is left to do.
class RankLoop {
 public:
  struct Setup {
    GroupRules rules;
    std::size_t rank = 0;  ///< in its lockstep group
    HostExchange& rounds;
    PassRunner& passes;
  };
  /// What the loop tells whoever started it, on its thread.
  struct Listener {
    /// On the first rank of the replica that ran it.
    std::function<void(RequestId, GenerateResult)> done;
    /// There too: the request failed on another rank of the replica, and the result does not count.
    std::function<void(RequestId)> withdrawn;
    /// On the leader: how a request ended.
    std::function<void(RequestId, const std::optional<Failure>&)> settled;
    /// On the leader, before each round: whether a request that is open is to end at the next boundary of passes. May
    /// be unset.
    std::function<bool(RequestId)> is_cancelled;
    /// Behind each pass, once it is enqueued. May throw, which is a fault of this rank.
    std::function<void(const PassPlan&)> passed;
  };

  RankLoop(const Setup& setup, Listener listener);

  /// Serves what the leader is given, and ends with the group. The payload of a request is the decimal index of a
  /// prepared one. Throws what the rank, or its group, fails with.
  void run(std::vector<ScheduledRequest> arrivals);
  /// The group is over because of `fault`: the leader settles what is open.
  void fail(const Fault& fault);

  const CouplingReport& coupling() const noexcept { return scheduler_.schedule().coupling(); }

 private:
  void handle(const SchedulerEvent& event);
  void on(const action::Propose& action);
  void on(const action::Reserve& action);
  void on(const action::Release& action);
  void on(action::RunPass& action);
  void on(const action::Rest&) {}
  void on(const action::Settle& action);
  void on(const action::AwaitReason&) {}  // a group that loses a rank ends with a reason, which its exchange throws
  void on(const action::FailGroup&) {}    // whoever called `fail` has aborted the communicators
  void on(const action::EndGroup&) {}

  void run_pass(const PassPlan& plan);
  void make_result(RequestId id);
  std::optional<std::size_t> close_pass(std::uint64_t number);
  void finish_pass();
  void tell_cancellations();
  void tell_failures();

  HostExchange& rounds_;
  PassRunner& passes_;
  Listener listener_;
  bool is_leader_;
  bool makes_results_;
  PassScheduler scheduler_;
  std::set<RequestId> made_;  // results, of requests that are not settled
  bool faulted_ = false;      // what is settled now may have been done
  std::set<RequestId> open_;  // the leader's: neither settled nor cancelled
  std::deque<Action> actions_;
  bool acting_ = false;
  std::deque<PassPlan> plans_;
  std::optional<std::uint64_t> unfinished_;  // the last pass enqueued
};

}  // namespace lamina
