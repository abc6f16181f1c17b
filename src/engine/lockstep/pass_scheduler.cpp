#include "engine/lockstep/pass_scheduler.h"

#include <utility>

#include "base/error.h"
#include "engine/lockstep/first_fault.h"

namespace lamina {

PassScheduler::PassScheduler(const GroupRules& rules, std::size_t rank) : schedule_(rules), rank_(rank) {
  expects(rank < rules.ranks(), "rank {} of a group of {}", rank, rules.ranks());
}

std::vector<Action> PassScheduler::handle(const SchedulerEvent& event) {
  std::visit([this](const auto& what) { on(what); }, event);
  if (may_propose()) {
    in_round_ = true;
    actions_.push_back(action::Propose{round_ + 1, std::exchange(proposal_, {})});
  }
  return std::exchange(actions_, {});
}

void PassScheduler::on(const event::Started&) {
  started_ = true;
}

void PassScheduler::on(const event::Arrived& event) {
  expects(is_leader(), "request {} arrived at rank {}, which is not the leader", event.request.id, rank_);
  expects(!event.request.legs.empty(), "request {} has nothing to do", event.request.id);
  for (const Leg& leg : event.request.legs)
    expects(leg.passes > 0 && leg.stack < schedule_.rules().stacks, "request {}: {} passes of stack {}",
            event.request.id, leg.passes, leg.stack);
  if (ended_) {
    actions_.push_back(action::Settle{event.request.id, Failure{ErrorCode::unavailable, "the engine has ended"}});
    return;
  }
  unsettled_.insert(event.request.id);
  proposal_.arrivals.push_back(event.request);
}

void PassScheduler::on(const event::Cancelled& event) {
  expects(is_leader(), "request {} was cancelled at rank {}, which is not the leader", event.id, rank_);
  proposal_.cancellations.push_back(event.id);
}

void PassScheduler::on(const event::StopRequested&) {
  expects(is_leader(), "rank {} was asked to stop, but is not the leader", rank_);
  proposal_.stop = true;
}

void PassScheduler::on(const event::Reserved& event) {
  expects(unanswered_.erase(event.vote.id) == 1, "nobody asked for the memory of request {}", event.vote.id);
  if (event.vote.answer == ReserveVote::Answer::held) held_.insert(event.vote.id);
  proposal_.votes.push_back(event.vote);
}

void PassScheduler::on(const event::SampleFailed& event) {
  expects(held_.count(event.report.id) == 1, "request {} failed on rank {}, where it does not run", event.report.id,
          rank_);
  proposal_.failures.push_back(event.report);
}

void PassScheduler::on(const event::PassClosing& event) {
  expects(event.number == closing_ + 1 && finished_ == closing_, "pass {} closes out of turn", event.number);
  closing_ = event.number;
}

void PassScheduler::on(const event::PassFinished& event) {
  expects(event.number == finished_ + 1 && event.number == closing_, "pass {} finishes out of turn", event.number);
  finished_ = event.number;
}

void PassScheduler::on(const event::Agreed& event) {
  if (ended_ || suspected_) return;
  expects(in_round_ && event.round == round_ + 1, "round {} is over before it began", event.round);
  in_round_ = false;
  round_ = event.round;
  for (const ScheduledRequest& request : event.proposals.front().arrivals) unsettled_.insert(request.id);
  carry_out(schedule_.decide(event.proposals));
}

void PassScheduler::carry_out(Decision decision) {
  for (const RequestId id : decision.withdrawals) release(id);
  for (Settlement& settlement : decision.settlements) {
    release(settlement.id);
    unsettled_.erase(settlement.id);
    actions_.push_back(action::Settle{settlement.id, std::move(settlement.failure)});
  }
  last_round_decided_ = decision.pass.has_value();
  if (decision.pass) {
    last_pass_ = decision.pass->number;
    actions_.push_back(action::RunPass{std::move(*decision.pass)});
  } else {
    actions_.push_back(action::Rest{});
  }
  for (const Placement& placement : decision.placements)
    if (placement.replica == replica()) {
      unanswered_.insert(placement.id);
      actions_.push_back(action::Reserve{schedule_.request(placement.id)});
    }
  if (!decision.ends) return;
  ended_ = true;
  actions_.push_back(action::EndGroup{});
}

void PassScheduler::release(RequestId id) {
  if (held_.erase(id) == 1) actions_.push_back(action::Release{id});
}

bool PassScheduler::may_propose() const {
  if (!started_ || ended_ || suspected_ || in_round_ || !unanswered_.empty()) return false;
  if (last_round_decided_ ? closing_ < last_pass_ : finished_ < last_pass_) return false;
  return !is_leader() || schedule_.has_open_requests() || proposal_ != Proposal{};
}

void PassScheduler::on(const event::Faulted& event) {
  if (!ended_) fail_group(event.fault);
}

void PassScheduler::on(const event::PeerLost& event) {
  if (ended_ || suspected_) return;
  suspected_ = Fault{event.rank, {ErrorCode::device, fmt::format("rank {} was lost", event.rank)}};
  actions_.push_back(action::AwaitReason{});
}

void PassScheduler::on(const event::ReasonOverdue&) {
  if (!ended_ && suspected_) fail_group(*suspected_);
}

void PassScheduler::fail_group(const Fault& fault) {
  ended_ = true;
  const Failure failure{ErrorCode::device, to_string(fault)};
  for (const RequestId id : unsettled_) {
    release(id);
    actions_.push_back(action::Settle{id, failure});
  }
  actions_.push_back(action::FailGroup{fault});
}

}  // namespace lamina
