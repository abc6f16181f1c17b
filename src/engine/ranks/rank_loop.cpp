#include "engine/ranks/rank_loop.h"

#include <utility>
#include <variant>

#include "base/error.h"
#include "engine/lockstep/proposal_bytes.h"

namespace lamina {

RankLoop::RankLoop(const Setup& setup, Listener listener)
    : rounds_(setup.rounds),
      passes_(setup.passes),
      listener_(std::move(listener)),
      is_leader_(setup.rank == 0),
      makes_results_(setup.rank % setup.rules.ranks_per_replica == 0),
      scheduler_(setup.rules, setup.rank) {}

void RankLoop::run(std::vector<ScheduledRequest> arrivals) {
  for (ScheduledRequest& request : arrivals) {
    open_.insert(request.id);
    handle(event::Arrived{std::move(request)});
  }
  tell_cancellations();
  if (is_leader_) handle(event::StopRequested{});
  handle(event::Started{});
  while (!scheduler_.has_ended()) {
    expects(!plans_.empty(), "a rank has neither a pass to run nor a round to enter");
    const PassPlan plan = std::move(plans_.front());
    plans_.pop_front();
    run_pass(plan);
    if (plans_.empty()) finish_pass();
  }
}

void RankLoop::fail(const Fault& fault) {
  faulted_ = true;
  handle(event::Faulted{fault});
}

void RankLoop::handle(const SchedulerEvent& event) {
  for (Action& action : scheduler_.handle(event)) actions_.push_back(std::move(action));
  if (std::exchange(acting_, true)) return;  // whoever called is carrying them out
  try {
    for (; !actions_.empty(); actions_.pop_front()) {
      Action action = std::move(actions_.front());
      std::visit([this](auto& what) { on(what); }, action);
    }
  } catch (...) {
    actions_.clear();
    acting_ = false;
    throw;
  }
  acting_ = false;
}

void RankLoop::on(const action::Propose& action) {
  std::vector<Proposal> proposals;
  for (const std::vector<std::byte>& bytes : rounds_.all_gather(to_bytes(action.proposal)))
    proposals.push_back(proposal_from_bytes(bytes));
  handle(event::Agreed{action.round, std::move(proposals)});
}

void RankLoop::on(const action::Reserve& action) {
  handle(event::Reserved{passes_.reserve(action.request.id, std::stoul(action.request.payload))});
}

void RankLoop::on(const action::Release& action) {
  passes_.release(action.id);
}

void RankLoop::on(action::RunPass& action) {
  plans_.push_back(std::move(action.plan));
}

void RankLoop::on(const action::Settle& action) {
  if (made_.erase(action.id) == 1 && action.failure && !faulted_) listener_.withdrawn(action.id);
  if (!is_leader_) return;
  open_.erase(action.id);
  listener_.settled(action.id, action.failure);
}

void RankLoop::run_pass(const PassPlan& plan) {
  const std::vector<Seat>& seats = plan.replicas.at(scheduler_.replica());
  passes_.run(plan, seats, [&] { return close_pass(plan.number); });
  unfinished_ = plan.number;
  for (const Seat& seat : seats)
    if (seat.leaves && makes_results_) make_result(seat.id);
  listener_.passed(plan);
}

void RankLoop::make_result(RequestId id) {
  std::optional<GenerateResult> result = passes_.result(id);
  if (!result) return;
  made_.insert(id);
  listener_.done(id, std::move(*result));
}

/// Enters the round that decides the pass behind this one, and gives that one's stack.
std::optional<std::size_t> RankLoop::close_pass(std::uint64_t number) {
  finish_pass();
  tell_failures();
  tell_cancellations();
  handle(event::PassClosing{number});
  return plans_.empty() ? std::nullopt : std::optional(plans_.front().stack);
}

void RankLoop::finish_pass() {
  if (!unfinished_) return;
  passes_.wait_for_pass();
  tell_failures();
  tell_cancellations();
  handle(event::PassFinished{*std::exchange(unfinished_, std::nullopt)});
}

void RankLoop::tell_failures() {
  for (SampleFailure& failure : passes_.take_failures()) handle(event::SampleFailed{std::move(failure)});
}

void RankLoop::tell_cancellations() {
  if (!listener_.is_cancelled) return;
  for (auto id = open_.begin(); id != open_.end();)
    if (listener_.is_cancelled(*id)) {
      handle(event::Cancelled{*id});
      id = open_.erase(id);
    } else {
      ++id;
    }
}

}  // namespace lamina
