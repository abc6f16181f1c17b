#include "engine/lockstep/group_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/expect_error.h"

namespace lamina {
namespace {

using Answer = ReserveVote::Answer;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::IsEmpty;

constexpr std::size_t kEncoder = 0;
constexpr std::size_t kTransformer = 1;
constexpr std::size_t kDecoder = 2;

/// A request of `steps` passes of the transformer that take `pass_time` each.
ScheduledRequest denoising(RequestId id, std::size_t steps, int pass_time = 10) {
  return {.id = id, .legs = {{kTransformer, steps, nanoseconds(pass_time)}}, .explicit_steps = steps};
}

/// The schedule of a group whose ranks answer each placement in the next round, "held" unless told otherwise.
class Group {
 public:
  explicit Group(GroupRules rules) : schedule(rules), proposals(rules.ranks()) {}

  Group& arrive(ScheduledRequest request) {
    proposals[0].arrivals.push_back(std::move(request));
    return *this;
  }
  Group& cancel(RequestId id) {
    proposals[0].cancellations.push_back(id);
    return *this;
  }
  Group& answer(RequestId id, std::size_t rank, Answer answer) {
    answers[{id, rank}] = answer;
    return *this;
  }
  Group& fail(RequestId id, std::size_t rank, const std::string& message) {
    proposals[rank].failures.push_back({id, {ErrorCode::internal, message}});
    return *this;
  }

  Decision round() {
    const Decision decision = schedule.decide(proposals);
    const std::size_t ranks = schedule.rules().ranks_per_replica;
    proposals.assign(proposals.size(), {});
    for (const Placement& placement : decision.placements)
      for (std::size_t rank = placement.replica * ranks; rank < (placement.replica + 1) * ranks; ++rank) {
        const auto told = answers.find({placement.id, rank});
        const Answer answer = told == answers.end() ? Answer::held : told->second;
        proposals[rank].votes.push_back(
            {placement.id, answer, {ErrorCode::out_of_device_memory, "rank " + std::to_string(rank) + " is full"}});
      }
    return decision;
  }
  /// The decision of the last of some rounds.
  Decision rounds(std::size_t count) {
    for (; count > 1; --count) round();
    return round();
  }

  GroupSchedule schedule;
  std::vector<Proposal> proposals;
  std::map<std::pair<RequestId, std::size_t>, Answer> answers;
};

/// Who takes part in a decided pass, by replica.
std::vector<std::vector<RequestId>> members(const Decision& decision) {
  std::vector<std::vector<RequestId>> result;
  if (!decision.pass) return result;
  for (const std::vector<Seat>& seats : decision.pass->replicas) {
    result.emplace_back();
    for (const Seat& seat : seats) result.back().push_back(seat.id);
  }
  return result;
}

std::vector<RequestId> settled(const Decision& decision) {
  std::vector<RequestId> ids;
  for (const Settlement& settlement : decision.settlements) ids.push_back(settlement.id);
  return ids;
}

TEST(GroupSchedule, ALoneRequestFromArrivalToSettlement) {
  Group group({.replicas = 2, .stacks = 3});
  group.arrive({.id = 1, .legs = {{kEncoder, 1}, {kTransformer, 2}}});
  const Decision placed = group.round();
  EXPECT_EQ(placed, (Decision{.round = 1, .placements = {{1, 0}}}));

  group.proposals[0].stop = true;
  const auto pass = [](std::uint64_t number, std::size_t stack, const Seat& seat) {
    return PassPlan{.number = number, .stack = stack, .replicas = {{seat}, {}}};
  };
  EXPECT_EQ(group.round(), (Decision{.round = 2, .pass = pass(1, kEncoder, {.id = 1, .joins = true})}));
  EXPECT_EQ(group.round(), (Decision{.round = 3, .pass = pass(2, kTransformer, {.id = 1, .leg = 1})}));
  EXPECT_EQ(
      group.round(),
      (Decision{.round = 4, .pass = pass(3, kTransformer, {.id = 1, .leg = 1, .pass_of_leg = 1, .leaves = true})}));
  EXPECT_EQ(group.round(), Decision{.round = 5}) << "the last pass is on its way";
  EXPECT_EQ(group.round(), (Decision{.round = 6, .settlements = {{1, {}}}, .ends = true}));
}

TEST(GroupSchedule, RequestsGoToTheReplicaThatIsFreeFirst) {
  Group group({.replicas = 2, .stacks = 3});
  group.arrive(denoising(1, 9)).arrive(denoising(2, 3)).arrive(denoising(3, 1)).arrive(denoising(4, 1));
  EXPECT_THAT(group.round().placements,
              ElementsAre(Placement{1, 0}, Placement{2, 1}, Placement{3, 1}, Placement{4, 0}));
}

TEST(GroupSchedule, TheNextSampleHoldsItsMemoryAndJoinsWhenOneHasLeft) {
  Group group({.stacks = 3});
  group.arrive(denoising(1, 2)).arrive(denoising(2, 1)).arrive(denoising(3, 1));
  EXPECT_THAT(group.round().placements, ElementsAre(Placement{1, 0}, Placement{2, 0})) << "one more than may run";
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1)));
  const Decision last = group.round();
  EXPECT_THAT(members(last), ElementsAre(ElementsAre(1)));
  EXPECT_THAT(last.placements, ElementsAre(Placement{3, 0}));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(2)));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(3)));
}

TEST(GroupSchedule, KSamplesOfAReplicaShareAPass) {
  Group group({.stacks = 3, .samples_per_replica = 2});
  group.arrive(denoising(1, 3)).arrive(denoising(2, 2)).arrive(denoising(3, 2)).round();
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1, 2)));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1, 2)));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1, 3)));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(3)));
}

TEST(GroupSchedule, AJoiningSampleHasItsFirstStackNextAndThenSharesPasses) {
  Group group({.replicas = 2, .stacks = 3});
  group.arrive(denoising(1, 5)).rounds(3);
  group.arrive({.id = 2, .legs = {{kEncoder, 1}, {kTransformer, 2}}});
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1), IsEmpty())) << "placed";
  const Decision encode = group.round();
  EXPECT_EQ(encode.pass->stack, kEncoder);
  EXPECT_THAT(members(encode), ElementsAre(IsEmpty(), ElementsAre(2)));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1), ElementsAre(2)));
}

TEST(GroupSchedule, NoStackIsStarved) {
  Group group({.replicas = 2, .stacks = 3});
  group.arrive(denoising(1, 100)).arrive({.id = 2, .legs = {{kTransformer, 1}, {kDecoder, 1}}}).rounds(2);
  EXPECT_EQ(group.round().pass->stack, kTransformer) << "a tie: the stack stays";
  EXPECT_EQ(group.round().pass->stack, kDecoder);
}

TEST(GroupSchedule, AllRanksOfTheReplicaMustHoldTheMemory) {
  Group group({.ranks_per_replica = 2, .stacks = 3});
  group.answer(2, 1, Answer::not_now);
  group.arrive(denoising(1, 2)).arrive(denoising(2, 1)).round();
  const Decision voted = group.round();
  EXPECT_THAT(voted.withdrawals, ElementsAre(2));
  EXPECT_THAT(voted.placements, IsEmpty()) << "it waits until memory is freed";
  EXPECT_THAT(group.rounds(2).placements, IsEmpty());
  group.answer(2, 1, Answer::held);
  const Decision freed = group.round();
  EXPECT_THAT(settled(freed), ElementsAre(1));
  EXPECT_THAT(freed.placements, ElementsAre(Placement{2, 0}));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(2)));
}

TEST(GroupSchedule, AWithdrawnReservationFreesMemoryForTheNext) {
  Group group({.stacks = 3});
  group.answer(1, 0, Answer::never).answer(2, 0, Answer::not_now);
  EXPECT_THAT(group.arrive(denoising(1, 1)).arrive(denoising(2, 1)).round().placements,
              ElementsAre(Placement{1, 0}, Placement{2, 0}));
  group.answer(2, 0, Answer::held);
  const Decision refused = group.round();
  EXPECT_THAT(settled(refused), ElementsAre(1));
  EXPECT_THAT(refused.placements, ElementsAre(Placement{2, 0}));
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(2)));
}

TEST(GroupSchedule, CancellingARequestThatHoldsNothingFreesNothing) {
  Group group({.stacks = 3});
  group.answer(2, 0, Answer::not_now);
  group.arrive(denoising(1, 9)).arrive(denoising(2, 1)).arrive(denoising(3, 1)).rounds(2);
  const Decision cancelled = group.cancel(3).round();
  EXPECT_THAT(settled(cancelled), ElementsAre(3));
  EXPECT_THAT(cancelled.placements, IsEmpty());
}

TEST(GroupSchedule, NobodyOvertakesARequestThatWaitsForMemory) {
  Group group({.stacks = 3, .samples_per_replica = 4});
  group.answer(2, 0, Answer::not_now);
  group.arrive(denoising(1, 2)).arrive(denoising(2, 1)).rounds(2);
  EXPECT_THAT(group.arrive(denoising(3, 1)).round().placements, IsEmpty());
}

TEST(GroupSchedule, WhatNoReplicaCanEverHoldIsRefusedWithTheReason) {
  Group group({.replicas = 2, .stacks = 3});
  group.answer(1, 0, Answer::never).answer(1, 1, Answer::never);
  EXPECT_THAT(group.arrive(denoising(1, 1)).round().placements, ElementsAre(Placement{1, 0}));
  EXPECT_THAT(group.round().placements, ElementsAre(Placement{1, 1}));
  EXPECT_THAT(group.round().settlements,
              ElementsAre(Settlement{1, Failure{ErrorCode::out_of_device_memory, "rank 1 is full"}}));
}

TEST(GroupSchedule, WhatDoesNotFitAnEmptyReplicaNeverWill) {
  Group group({.stacks = 3});
  group.answer(1, 0, Answer::not_now).arrive(denoising(1, 1)).round();
  EXPECT_THAT(group.round().settlements,
              ElementsAre(Settlement{1, Failure{ErrorCode::out_of_device_memory, "rank 0 is full"}}));
}

TEST(GroupSchedule, AFailedSampleLeavesAtThePassBoundaryAndIsSettledBehindIt) {
  Group group({.replicas = 2, .ranks_per_replica = 2, .stacks = 3});
  group.arrive(denoising(1, 9)).arrive(denoising(2, 9)).rounds(3);
  group.fail(1, 1, "the second rank's reason").fail(1, 0, "the first rank's reason");
  const Decision without = group.round();
  EXPECT_THAT(members(without), ElementsAre(IsEmpty(), ElementsAre(2)));
  EXPECT_THAT(without.settlements, IsEmpty()) << "the pass with it is still on its way";
  EXPECT_THAT(group.round().settlements,
              ElementsAre(Settlement{1, Failure{ErrorCode::internal, "the first rank's reason"}}));
}

TEST(GroupSchedule, AFailureInTheLastPassIsNotLost) {
  Group group({.stacks = 3});
  group.arrive(denoising(1, 1)).rounds(2);
  group.round();
  EXPECT_THAT(group.fail(1, 0, "late").round().settlements,
              ElementsAre(Settlement{1, Failure{ErrorCode::internal, "late"}}));
}

TEST(GroupSchedule, CancellationReachesEveryState) {
  const Failure cancelled{ErrorCode::cancelled, "the request was cancelled"};
  Group group({.stacks = 3});
  group.arrive(denoising(1, 9)).arrive(denoising(2, 9)).arrive(denoising(3, 9)).rounds(2);
  EXPECT_THAT(group.cancel(3).round().settlements, ElementsAre(Settlement{3, cancelled})) << "waiting";
  EXPECT_THAT(group.cancel(2).round().settlements, ElementsAre(Settlement{2, cancelled})) << "holding memory";
  EXPECT_FALSE(group.cancel(1).round().pass.has_value()) << "running";
  EXPECT_THAT(group.round().settlements, ElementsAre(Settlement{1, cancelled}));
  EXPECT_THAT(group.cancel(1).round().settlements, IsEmpty()) << "over";
}

TEST(GroupSchedule, CancellingInTheLastPassIsTooLate) {
  Group group({.stacks = 3});
  group.arrive(denoising(1, 1)).rounds(2);
  group.cancel(1).round();
  EXPECT_THAT(group.round().settlements, ElementsAre(Settlement{1, {}}));
}

TEST(GroupSchedule, ARequestIsPlacedBesideOthersOfItsPassTime) {
  Group group({.replicas = 2, .stacks = 3});
  group.arrive(denoising(1, 20, 100)).rounds(2);
  group.arrive(denoising(2, 5, 20)).arrive(denoising(3, 5, 90));
  EXPECT_EQ(group.round().placements.front(), (Placement{3, 1}));
}

TEST(GroupSchedule, ARequestIsOvertakenABoundedNumberOfTimes) {
  Group group({.replicas = 2, .stacks = 3});
  group.arrive(denoising(1, 1000, 100)).rounds(2);
  group.arrive(denoising(2, 1, 1));
  for (RequestId id = 3; id < 30; ++id) group.arrive(denoising(id, 1, 100));
  std::vector<RequestId> order;
  for (int i = 0; i < 80; ++i)
    for (const Placement& placement : group.round().placements) order.push_back(placement.id);
  const auto place = std::find(order.begin(), order.end(), RequestId{2});
  EXPECT_EQ(place - order.begin(), 8);
}

TEST(GroupSchedule, StrictWavesTakeEqualExplicitStepsOnly) {
  Group group({.replicas = 2, .stacks = 3, .wave_policy = WavePolicy::strict});
  ScheduledRequest implicit = denoising(1, 4);
  implicit.explicit_steps.reset();
  group.arrive(implicit).arrive(denoising(2, 2)).arrive(denoising(3, 5)).arrive(denoising(4, 2));
  const Decision placed = group.round();
  ASSERT_THAT(settled(placed), ElementsAre(1, 3));
  EXPECT_EQ(placed.settlements[0].failure->code, ErrorCode::invalid_argument);
  EXPECT_EQ(placed.settlements[1].failure->code, ErrorCode::incompatible);
  EXPECT_THAT(placed.settlements[1].failure->message, ::testing::HasSubstr("takes 5 steps, its wave 2"));
  EXPECT_THAT(placed.placements, ElementsAre(Placement{2, 0})) << "the wave was 2 and 3";
}

TEST(GroupSchedule, AStrictWaveRunsToItsEndBeforeTheNextBegins) {
  Group group({.replicas = 2, .stacks = 3, .wave_policy = WavePolicy::strict});
  group.arrive(denoising(1, 2)).arrive(denoising(2, 2)).arrive(denoising(3, 1)).round();
  EXPECT_THAT(members(group.round()), ElementsAre(ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(group.round().placements, IsEmpty());
  EXPECT_THAT(group.round().placements, IsEmpty());
  const Decision over = group.round();
  EXPECT_THAT(settled(over), ElementsAre(1, 2));
  EXPECT_THAT(over.placements, ElementsAre(Placement{3, 0}));
}

TEST(GroupSchedule, CountsWhatLockStepCosts) {
  Group group({.replicas = 3, .stacks = 3});
  group.arrive(denoising(1, 1, 30)).arrive(denoising(2, 1, 10)).rounds(2);
  const CouplingReport& coupling = group.schedule.coupling();
  EXPECT_EQ(coupling.passes, 1u);
  EXPECT_EQ(coupling.working.count(), 60);
  EXPECT_EQ(coupling.lost.count(), 20);
  EXPECT_EQ(coupling.idle.count(), 30);
  EXPECT_DOUBLE_EQ(coupling.loss(), 1.0 / 3);
}

TEST(GroupSchedule, AfterAStopWhatArrivedIsServedAndNoMore) {
  Group group({.stacks = 3});
  group.arrive(denoising(1, 1)).proposals[0].stop = true;
  EXPECT_FALSE(group.round().ends);
  const Decision late = group.arrive(denoising(2, 1)).round();
  EXPECT_THAT(members(late), ElementsAre(ElementsAre(1)));
  ASSERT_THAT(settled(late), ElementsAre(2));
  EXPECT_EQ(late.settlements[0].failure->code, ErrorCode::unavailable);
  EXPECT_TRUE(group.rounds(2).ends);
}

TEST(GroupSchedule, BrokenContractsAreInternalErrors) {
  Group group({.stacks = 3});
  group.arrive(denoising(1, 1)).round();
  group.proposals[0].votes.clear();
  expect_error(ErrorCode::internal, {"did not vote on request 1"}, [&] { group.round(); });
  expect_error(ErrorCode::internal, {"request 9 failed while it was not running"},
               [] { Group({.stacks = 3}).fail(9, 0, "x").round(); });
  expect_error(ErrorCode::internal, {"0 proposals of 1 ranks"}, [] { GroupSchedule({.stacks = 3}).decide({}); });
}

}  // namespace
}  // namespace lamina
