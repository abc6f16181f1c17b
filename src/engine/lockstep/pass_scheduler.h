#pragma once

#include <set>
#include <variant>

#include "engine/lockstep/group_schedule.h"

namespace lamina {

// What happens to a rank. The leader, rank 0 of the group, is where requests enter and leave.
namespace event {
struct Started {};  ///< the group is formed
struct Arrived {    ///< leader only; ids ascend
  ScheduledRequest request;
};
struct Cancelled {  ///< leader only
  RequestId id = 0;
};
struct StopRequested {};  ///< leader only: end when everything that arrived is served
struct Reserved {         ///< the answer to action::Reserve
  ReserveVote vote;
};
struct SampleFailed {  ///< told before the pass in which it happened is finished
  SampleFailure report;
};
struct PassClosing {  ///< the running pass has come to where the one behind it should be known; those before are
                      ///< finished
  std::uint64_t number = 0;
};
struct PassFinished {  ///< on the device too, and its failures were told
  std::uint64_t number = 0;
};
struct Agreed {  ///< a round is over: what all ranks proposed, in order
  std::uint64_t round = 0;
  std::vector<Proposal> proposals;
};
struct Faulted {  ///< here, or as another rank tells
  Fault fault;
};
struct PeerLost {  ///< a rank is gone, and has not told why
  std::size_t rank = 0;
};
struct ReasonOverdue {};  ///< the answer to action::AwaitReason, when none was told in time
}  // namespace event

using SchedulerEvent = std::variant<event::Started, event::Arrived, event::Cancelled, event::StopRequested,
                                    event::Reserved, event::SampleFailed, event::PassClosing, event::PassFinished,
                                    event::Agreed, event::Faulted, event::PeerLost, event::ReasonOverdue>;

// What a rank is to do, in the order given.
namespace action {
struct Propose {  ///< enter the round: an all-gather of proposals over the group
  std::uint64_t round = 0;
  Proposal proposal;
};
struct Reserve {  ///< try to reserve a sample's memory and answer before anything else: event::Reserved
  ScheduledRequest request;
};
struct Release {  ///< free a sample's memory; nothing runs on it any more
  RequestId id = 0;
};
struct RunPass {  ///< behind the passes before it; samples of this rank that failed run on scratch
  PassPlan plan;
};
struct Rest {};  ///< nothing follows the passes so far, for now: gather nothing ahead
struct Settle {  ///< a request is over; the leader tells its client
  RequestId id = 0;
  std::optional<Failure> failure;
};
struct AwaitReason {};  ///< abort all communicators; a survivor's reason may still come: start the timer
struct FailGroup {      ///< abort all communicators; a fault of this rank's own is told to the others
  Fault fault;
};
struct EndGroup {};  ///< all ranks end here, in agreement
}  // namespace action

using Action = std::variant<action::Propose, action::Reserve, action::Release, action::RunPass, action::Rest,
                            action::Settle, action::AwaitReason, action::FailGroup, action::EndGroup>;

/// One rank's half of the control plane: collects what happens here, proposes it at the right moment, and turns what
/// the group decided into what this rank has to do. A pure state machine: no clock, no threads, no communication; one
/// thread uses it.
///
/// A rank enters a round when the round before is over and, if that decided a pass, the pass is closing, else all
/// passes are finished. So a round decides the pass behind the running one, and an idle group blocks in its round until
/// the leader, which enters last, has something to tell.
class PassScheduler {
 public:
  /// `rank` is the place in the lockstep group.
  PassScheduler(const GroupRules& rules, std::size_t rank);

  std::vector<Action> handle(const SchedulerEvent& event);

  std::size_t replica() const noexcept { return rank_ / schedule_.rules().ranks_per_replica; }
  const GroupSchedule& schedule() const noexcept { return schedule_; }
  bool has_ended() const noexcept { return ended_; }

 private:
  void on(const event::Started& event);
  void on(const event::Arrived& event);
  void on(const event::Cancelled& event);
  void on(const event::StopRequested& event);
  void on(const event::Reserved& event);
  void on(const event::SampleFailed& event);
  void on(const event::PassClosing& event);
  void on(const event::PassFinished& event);
  void on(const event::Agreed& event);
  void on(const event::Faulted& event);
  void on(const event::PeerLost& event);
  void on(const event::ReasonOverdue& event);

  bool is_leader() const noexcept { return rank_ == 0; }
  void carry_out(Decision decision);
  void release(RequestId id);
  bool may_propose() const;
  void fail_group(const Fault& fault);

  GroupSchedule schedule_;
  std::size_t rank_;
  Proposal proposal_;  // what to tell in the next round
  bool started_ = false;
  bool in_round_ = false;            // proposed, not agreed yet
  std::uint64_t round_ = 0;          // the last one that is over
  std::uint64_t last_pass_ = 0;      // the last one decided
  bool last_round_decided_ = false;  // a pass
  std::uint64_t closing_ = 0;
  std::uint64_t finished_ = 0;
  std::set<RequestId> unanswered_;  // reservations
  std::set<RequestId> held_;
  std::set<RequestId> unsettled_;  // the leader's from their arrival, the others' from their first round
  std::optional<Fault> suspected_;
  bool ended_ = false;
  std::vector<Action> actions_;
};

}  // namespace lamina
