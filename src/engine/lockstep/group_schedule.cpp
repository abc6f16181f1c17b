#include "engine/lockstep/group_schedule.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {
namespace {

/// A sample that has just joined counts as having waited, so that its first stack is not kept waiting by the others.
constexpr std::size_t kWaitedOnJoining = 1;

/// The entry of a request, in entries of ascending ids, or their end.
template <typename Entries>
auto find_in(Entries& entries, RequestId id) {
  const auto entry = std::lower_bound(entries.begin(), entries.end(), id,
                                      [](const auto& one, RequestId wanted) { return one.request.id < wanted; });
  return entry != entries.end() && entry->request.id == id ? entry : entries.end();
}

}  // namespace

GroupSchedule::GroupSchedule(const GroupRules& rules) : rules_(rules) {
  expects(rules.ranks() > 0 && rules.stacks > 0 && rules.samples_per_replica > 0, "a group without ranks or stacks");
}

Decision GroupSchedule::decide(std::span<const Proposal> proposals) {
  expects(proposals.size() == rules_.ranks(), "{} proposals of {} ranks", proposals.size(), rules_.ranks());
  Decision decision{.round = ++round_};
  take_arrivals(proposals.front(), decision);
  take_votes(proposals, decision);
  take_failures(proposals);
  take_cancellations(proposals.front());
  settle(decision);
  decision.pass = plan_pass();
  place(decision);
  covered_pass_ = decision.pass ? last_pass_ - 1 : last_pass_;
  decision.ends = stopping_ && entries_.empty();
  return decision;
}

const ScheduledRequest& GroupSchedule::request(RequestId id) const {
  const auto entry = find_in(entries_, id);
  expects(entry != entries_.end(), "request {} is not open", id);
  return entry->request;
}

GroupSchedule::Entry* GroupSchedule::find(RequestId id) {
  const auto entry = find_in(entries_, id);
  return entry != entries_.end() ? &*entry : nullptr;
}

void GroupSchedule::take_arrivals(const Proposal& leader, Decision& decision) {
  for (const ScheduledRequest& request : leader.arrivals) {
    expects(entries_.empty() || entries_.back().request.id < request.id, "request {} arrived late", request.id);
    if (stopping_)
      decision.settlements.push_back({request.id, Failure{ErrorCode::unavailable, "the engine is shutting down"}});
    else if (rules_.wave_policy == WavePolicy::strict && !request.explicit_steps)
      decision.settlements.push_back(
          {request.id, Failure{ErrorCode::invalid_argument,
                               "--dlo-wave-policy strict: expected an explicit number of steps in every request; give "
                               "one, or use --dlo-wave-policy ragged"}});
    else
      entries_.push_back({.request = request,
                          .full = std::vector<bool>(rules_.replicas),
                          .impossible = std::vector<bool>(rules_.replicas)});
  }
  stopping_ = stopping_ || leader.stop;
}

ReserveVote GroupSchedule::joint_vote(const Entry& entry, std::span<const Proposal> proposals) const {
  ReserveVote joint{.id = entry.request.id};
  for (std::size_t rank = 0; rank < rules_.ranks_per_replica; ++rank) {
    const std::vector<ReserveVote>& votes = proposals[entry.replica * rules_.ranks_per_replica + rank].votes;
    const auto vote = std::find_if(votes.begin(), votes.end(), [&](const ReserveVote& v) { return v.id == joint.id; });
    expects(vote != votes.end(), "a rank of replica {} did not vote on request {}", entry.replica, joint.id);
    if (vote->answer > joint.answer) joint = *vote;
  }
  return joint;
}

void GroupSchedule::take_votes(std::span<const Proposal> proposals, Decision& decision) {
  for (Entry& entry : entries_)
    if (entry.state == State::reserving) apply_vote(entry, joint_vote(entry, proposals), decision);
}

void GroupSchedule::apply_vote(Entry& entry, const ReserveVote& vote, Decision& decision) {
  using Answer = ReserveVote::Answer;
  if (vote.answer == Answer::held) {
    entry.state = State::held;
    entry.holds_memory = true;
    return;
  }
  entry.state = State::waiting;
  decision.withdrawals.push_back(vote.id);
  if (vote.answer == Answer::not_now && !entry.alone) {
    entry.full[entry.replica] = true;
    return;
  }
  entry.impossible[entry.replica] = true;
  if (std::find(entry.impossible.begin(), entry.impossible.end(), false) != entry.impossible.end()) return;
  fail_entry(entry, vote.failure);
}

void GroupSchedule::fail_entry(Entry& entry, Failure failure) {
  if (!entry.failure) entry.failure = std::move(failure);
  entry.state = State::leaving;
}

void GroupSchedule::take_failures(std::span<const Proposal> proposals) {
  for (const Proposal& proposal : proposals)
    for (const SampleFailure& report : proposal.failures) {
      Entry* entry = find(report.id);
      expects(entry != nullptr && (entry->state == State::running || entry->state == State::leaving),
              "request {} failed while it was not running", report.id);
      fail_entry(*entry, report.failure);
    }
}

void GroupSchedule::take_cancellations(const Proposal& leader) {
  for (const RequestId id : leader.cancellations) {
    Entry* entry = find(id);
    if (entry == nullptr || entry->state == State::leaving) continue;  // too late
    fail_entry(*entry, {ErrorCode::cancelled, "the request was cancelled"});
  }
}

void GroupSchedule::settle(Decision& decision) {
  const auto is_over = [&](const Entry& entry) {
    return entry.state == State::leaving && entry.last_pass <= covered_pass_;
  };
  std::vector<bool> freed(rules_.replicas);
  for (const Entry& entry : entries_)
    if (is_over(entry)) {
      decision.settlements.push_back({entry.request.id, entry.failure});
      if (entry.holds_memory) freed[entry.replica] = true;
    }
  std::erase_if(entries_, is_over);
  for (std::size_t replica = 0; replica < rules_.replicas; ++replica)
    if (freed[replica] || is_empty(replica))
      for (Entry& entry : entries_) entry.full[replica] = false;
}

void GroupSchedule::promote_held() {
  std::vector<std::size_t> running(rules_.replicas);
  for (const Entry& entry : entries_)
    if (entry.state == State::running) ++running[entry.replica];
  for (Entry& entry : entries_)
    if (entry.state == State::held && running[entry.replica] < rules_.samples_per_replica) {
      entry.state = State::running;
      entry.waited = kWaitedOnJoining;
      ++running[entry.replica];
    }
}

const GroupSchedule::Entry* GroupSchedule::longest_waiting() const {
  const Entry* first = nullptr;
  const auto precedes = [&](const Entry& one, const Entry& other) {
    if (one.waited != other.waited) return one.waited > other.waited;
    return one.current_leg().stack == last_stack_ && other.current_leg().stack != last_stack_;
  };
  for (const Entry& entry : entries_)
    if (entry.state == State::running && (first == nullptr || precedes(entry, *first))) first = &entry;
  return first;
}

std::optional<PassPlan> GroupSchedule::plan_pass() {
  promote_held();
  const Entry* first = longest_waiting();
  if (first == nullptr) return std::nullopt;
  PassPlan plan{.number = ++last_pass_, .stack = first->current_leg().stack};
  plan.replicas.resize(rules_.replicas);
  std::vector<std::chrono::nanoseconds> durations(rules_.replicas);
  for (Entry& entry : entries_) {
    if (entry.state != State::running) continue;
    if (entry.current_leg().stack != plan.stack) {
      ++entry.waited;
      continue;
    }
    durations[entry.replica] += entry.current_leg().pass_time;
    plan.replicas[entry.replica].push_back(seat(entry, plan.number));
  }
  last_stack_ = plan.stack;
  count_coupling(plan, durations);
  return plan;
}

Seat GroupSchedule::seat(Entry& entry, std::uint64_t pass) {
  Seat seat{.id = entry.request.id,
            .leg = entry.leg,
            .pass_of_leg = entry.pass_of_leg,
            .joins = entry.last_pass == 0,
            .leaves = false};
  entry.last_pass = pass;
  entry.waited = 0;
  if (++entry.pass_of_leg == entry.current_leg().passes) {
    entry.pass_of_leg = 0;
    seat.leaves = ++entry.leg == entry.request.legs.size();
  }
  if (seat.leaves) entry.state = State::leaving;
  return seat;
}

void GroupSchedule::count_coupling(const PassPlan& plan, const std::vector<std::chrono::nanoseconds>& durations) {
  const std::chrono::nanoseconds longest = *std::max_element(durations.begin(), durations.end());
  ++coupling_.passes;
  for (std::size_t replica = 0; replica < rules_.replicas; ++replica) {
    if (plan.replicas[replica].empty()) {
      coupling_.idle += longest;
    } else {
      coupling_.working += longest;
      coupling_.lost += longest - durations[replica];
    }
  }
}

}  // namespace lamina
