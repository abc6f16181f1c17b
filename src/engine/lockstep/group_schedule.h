#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "engine/lockstep/messages.h"
#include "lamina/parallel.h"

namespace lamina {

/// What a lockstep group agreed on when it was formed.
struct GroupRules {
  std::size_t replicas = 1;
  std::size_t ranks_per_replica = 1;
  std::size_t stacks = 1;
  std::size_t samples_per_replica = 1;  ///< --max-concurrent-requests-per-replica
  WavePolicy wave_policy = WavePolicy::ragged;

  std::size_t ranks() const noexcept { return replicas * ranks_per_replica; }
};

/// What lock-step costs, from predicted pass times.
struct CouplingReport {
  std::size_t passes = 0;
  std::chrono::nanoseconds working{0};  ///< of the passes' durations, over replicas with samples in them
  std::chrono::nanoseconds lost{0};     ///< of `working`: time in which such a replica waited for a slower one
  std::chrono::nanoseconds idle{0};     ///< of the passes' durations, over replicas without samples

  double loss() const noexcept { return working.count() > 0 ? double(lost.count()) / double(working.count()) : 0; }
};

/// What a group has agreed on so far, and the rule by which it agrees on more. Every rank keeps one and feeds it the
/// same proposals, so all reach the same decisions. It does not know which rank it runs on, what time it is, or
/// anything else that was not agreed. Not thread safe.
///
/// A request waits, is placed on a replica whose ranks reserve its memory, holds it, runs, leaves with its last pass,
/// and is settled when all ranks have told how that pass went. Each replica may hold one sample more than may run, so
/// that it joins in the very pass in which another has left.
class GroupSchedule {
 public:
  explicit GroupSchedule(const GroupRules& rules);

  /// One round: `proposals` of all ranks, in order. When a rank proposes, all its passes are finished but the one the
  /// last round decided, if it did.
  Decision decide(std::span<const Proposal> proposals);

  bool has_open_requests() const noexcept { return !entries_.empty(); }
  /// Throws internal where the request is not open.
  const ScheduledRequest& request(RequestId id) const;
  const GroupRules& rules() const noexcept { return rules_; }
  const CouplingReport& coupling() const noexcept { return coupling_; }

 private:
  enum class State { waiting, reserving, held, running, leaving };

  struct Entry {
    ScheduledRequest request;
    State state = State::waiting;
    std::size_t replica = 0;  // unless waiting
    bool holds_memory = false;
    bool alone = false;            // placed on an empty replica: what does not fit there now never will
    std::vector<bool> full;        // replicas on which to wait until memory is freed
    std::vector<bool> impossible;  // replicas that can never hold it
    std::size_t leg = 0;
    std::size_t pass_of_leg = 0;
    std::size_t waited = 0;       // passes since its last one
    std::uint64_t last_pass = 0;  // number of the last pass it was planned into
    std::size_t overtaken = 0;    // by requests that arrived later
    std::optional<Failure> failure;

    const Leg& current_leg() const { return request.legs[leg]; }
    bool is_seated() const { return state != State::waiting && state != State::leaving; }
  };

  // In this order, each round:
  void take_arrivals(const Proposal& leader, Decision& decision);
  void take_votes(std::span<const Proposal> proposals, Decision& decision);
  void take_failures(std::span<const Proposal> proposals);
  void take_cancellations(const Proposal& leader);
  void settle(Decision& decision);
  std::optional<PassPlan> plan_pass();
  void place(Decision& decision);

  Entry* find(RequestId id);
  ReserveVote joint_vote(const Entry& entry, std::span<const Proposal> proposals) const;
  void apply_vote(Entry& entry, const ReserveVote& vote, Decision& decision);
  void fail_entry(Entry& entry, Failure failure);
  void promote_held();
  const Entry* longest_waiting() const;
  Seat seat(Entry& entry, std::uint64_t pass);
  void count_coupling(const PassPlan& plan, const std::vector<std::chrono::nanoseconds>& durations);

  void place_wave(Decision& decision);
  void place_on(Entry& entry, std::size_t replica, Decision& decision);
  Entry* next_to_place();
  std::optional<std::size_t> replica_for(const Entry& entry) const;
  bool is_empty(std::size_t replica) const;
  std::size_t seats(std::size_t replica) const;
  std::chrono::nanoseconds time_until_free(std::size_t replica) const;
  std::chrono::nanoseconds load(std::size_t replica) const;

  GroupRules rules_;
  std::deque<Entry> entries_;  // in order of arrival
  std::uint64_t round_ = 0;
  std::uint64_t last_pass_ = 0;     // number of the last pass decided
  std::uint64_t covered_pass_ = 0;  // the next proposals tell everything up to the end of this pass
  std::size_t last_stack_ = 0;
  bool stopping_ = false;
  CouplingReport coupling_;
};

}  // namespace lamina
