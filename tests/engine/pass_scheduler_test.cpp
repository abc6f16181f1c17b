#include "engine/lockstep/pass_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::IsEmpty;

/// Actions as words: "propose 3", "reserve 1", "run 2", ...
std::vector<std::string> words(const std::vector<Action>& actions) {
  struct Word {
    std::string operator()(const action::Propose& a) const { return "propose " + std::to_string(a.round); }
    std::string operator()(const action::Reserve& a) const { return "reserve " + std::to_string(a.request.id); }
    std::string operator()(const action::Release& a) const { return "release " + std::to_string(a.id); }
    std::string operator()(const action::RunPass& a) const { return "run " + std::to_string(a.plan.number); }
    std::string operator()(const action::Rest&) const { return "rest"; }
    std::string operator()(const action::Settle& a) const {
      return "settle " + std::to_string(a.id) + (a.failure ? std::string(" ") + to_string(a.failure->code) : "");
    }
    std::string operator()(const action::AwaitReason&) const { return "await reason"; }
    std::string operator()(const action::FailGroup& a) const { return "fail: " + a.fault.failure.message; }
    std::string operator()(const action::EndGroup&) const { return "end"; }
  };
  std::vector<std::string> result;
  for (const Action& action : actions) result.push_back(std::visit(Word{}, action));
  return result;
}

ScheduledRequest denoising(RequestId id, std::size_t steps) {
  return {.id = id, .legs = {{0, steps, std::chrono::nanoseconds(10)}}};
}

/// Both ranks of a group of two replicas, with the rounds between them.
class PassSchedulerTest : public ::testing::Test {
 protected:
  std::vector<std::string> feed(std::size_t rank, const SchedulerEvent& event) {
    std::vector<Action> actions = ranks[rank].handle(event);
    for (const Action& action : actions)
      if (const auto* propose = std::get_if<action::Propose>(&action)) proposals[rank] = propose->proposal;
    return words(actions);
  }
  std::vector<std::string> agree(std::size_t rank, std::uint64_t round) {
    return feed(rank, event::Agreed{round, agreed});
  }
  /// Ends a round that both ranks are in.
  void close_round() { agreed = proposals; }

  /// Request 1 is placed on replica 0 and holds its memory; both ranks are about to run its first pass.
  void run_first_pass() {
    feed(1, event::Started{});
    feed(0, event::Started{});
    feed(0, event::Arrived{denoising(1, 3)});
    close_round();
    agree(1, 1);
    agree(0, 1);
    feed(0, event::Reserved{{.id = 1}});
    close_round();
    ASSERT_THAT(agree(0, 2), ElementsAre("run 1"));
    ASSERT_THAT(agree(1, 2), ElementsAre("run 1"));
  }

  static constexpr GroupRules kRules{.replicas = 2};
  std::vector<PassScheduler> ranks{PassScheduler(kRules, 0), PassScheduler(kRules, 1)};
  std::vector<Proposal> proposals{2};
  std::vector<Proposal> agreed;
};

TEST_F(PassSchedulerTest, AnIdleGroupBlocksInItsRoundUntilTheLeaderHasSomethingToTell) {
  EXPECT_THAT(feed(1, event::Started{}), ElementsAre("propose 1"));
  EXPECT_THAT(feed(0, event::Started{}), IsEmpty());
  EXPECT_THAT(feed(0, event::Arrived{denoising(1, 3)}), ElementsAre("propose 1"));
}

TEST_F(PassSchedulerTest, ARankProposesWhenItHasAnsweredReservations) {
  feed(1, event::Started{});
  feed(0, event::Started{});
  feed(0, event::Arrived{denoising(1, 3)});
  close_round();
  EXPECT_THAT(agree(1, 1), ElementsAre("rest", "propose 2"));
  EXPECT_THAT(agree(0, 1), ElementsAre("rest", "reserve 1"));
  EXPECT_THAT(feed(0, event::Reserved{{.id = 1}}), ElementsAre("propose 2"));
  EXPECT_EQ(proposals[0].votes, std::vector{ReserveVote{.id = 1}});
}

TEST_F(PassSchedulerTest, TheNextPassIsAgreedWhileOneIsClosing) {
  run_first_pass();
  EXPECT_THAT(feed(1, event::PassClosing{1}), ElementsAre("propose 3"));
  EXPECT_THAT(feed(0, event::PassClosing{1}), ElementsAre("propose 3"));
  close_round();
  EXPECT_THAT(agree(0, 3), ElementsAre("run 2")) << "before the first is finished";
  EXPECT_THAT(feed(0, event::PassFinished{1}), IsEmpty());
  EXPECT_THAT(feed(0, event::PassClosing{2}), ElementsAre("propose 4"));
}

TEST_F(PassSchedulerTest, BehindTheLastPassARankProposesWhenItIsFinished) {
  run_first_pass();
  for (std::uint64_t pass = 1; pass <= 3; ++pass) {
    for (const std::size_t rank : {0u, 1u}) feed(rank, event::PassClosing{pass});
    close_round();
    EXPECT_THAT(agree(0, pass + 2), ElementsAre(pass < 3 ? "run " + std::to_string(pass + 1) : "rest"));
    EXPECT_THAT(agree(1, pass + 2), ElementsAre(pass < 3 ? "run " + std::to_string(pass + 1) : "rest"));
    if (pass == 3) break;
    for (const std::size_t rank : {0u, 1u}) EXPECT_THAT(feed(rank, event::PassFinished{pass}), IsEmpty());
  }
  EXPECT_THAT(feed(0, event::PassFinished{3}), ElementsAre("propose 6"));
  EXPECT_THAT(feed(1, event::PassFinished{3}), ElementsAre("propose 6"));
  close_round();
  EXPECT_THAT(agree(0, 6), ElementsAre("release 1", "settle 1", "rest")) << "and blocks again";
  EXPECT_THAT(agree(1, 6), ElementsAre("settle 1", "rest", "propose 7"));
}

TEST_F(PassSchedulerTest, MemoryIsFreedBeforeItIsReservedAgain) {
  PassScheduler rank({}, 0);
  std::uint64_t number = 0;
  const auto round = [&](const Proposal& proposal) { return words(rank.handle(event::Agreed{++number, {proposal}})); };
  rank.handle(event::Started{});
  rank.handle(event::Arrived{denoising(1, 3)});
  round({.arrivals = {denoising(1, 3)}});
  rank.handle(event::Reserved{{.id = 1}});
  EXPECT_THAT(round({.arrivals = {denoising(2, 3)}, .cancellations = {1}, .votes = {{.id = 1}}}),
              ElementsAre("release 1", "settle 1 cancelled", "rest", "reserve 2"));
}

TEST_F(PassSchedulerTest, AStopEndsAllRanksInAgreement) {
  feed(1, event::Started{});
  feed(0, event::Started{});
  EXPECT_THAT(feed(0, event::StopRequested{}), ElementsAre("propose 1"));
  close_round();
  EXPECT_THAT(agree(1, 1), ElementsAre("rest", "end"));
  EXPECT_THAT(agree(0, 1), ElementsAre("rest", "end"));
  EXPECT_TRUE(ranks[0].has_ended());
  EXPECT_THAT(feed(0, event::Arrived{denoising(1, 1)}), ElementsAre("settle 1 unavailable"));
}

TEST_F(PassSchedulerTest, AFaultSettlesEverythingThatArrived) {
  run_first_pass();
  feed(0, event::Arrived{denoising(2, 1)});
  feed(0, event::PassClosing{1});
  feed(0, event::Arrived{denoising(3, 1)});
  const event::Faulted fault{{1, {ErrorCode::device, "an uncorrectable error"}}};
  EXPECT_THAT(feed(0, fault), ElementsAre("release 1", "settle 1 device", "settle 2 device", "settle 3 device",
                                          "fail: an uncorrectable error"))
      << "running, on its way to the others, not told yet";
  EXPECT_THAT(feed(1, fault), ElementsAre("settle 1 device", "fail: an uncorrectable error"));
  EXPECT_THAT(feed(0, fault), IsEmpty()) << "the first one counts";
  EXPECT_THAT(feed(0, event::PassFinished{1}), IsEmpty());
}

TEST_F(PassSchedulerTest, SurvivorsWaitForTheReasonOfALostPeer) {
  run_first_pass();
  EXPECT_THAT(feed(0, event::PeerLost{1}), ElementsAre("await reason"));
  EXPECT_THAT(feed(0, event::PassClosing{1}), IsEmpty()) << "no round begins any more";
  EXPECT_THAT(feed(0, event::Faulted{{1, {ErrorCode::device, "out of range"}}}),
              ElementsAre("release 1", "settle 1 device", "fail: out of range"));

  EXPECT_THAT(feed(1, event::PeerLost{0}), ElementsAre("await reason"));
  EXPECT_THAT(feed(1, event::ReasonOverdue{}), ElementsAre("settle 1 device", "fail: rank 0 was lost"));
}

TEST_F(PassSchedulerTest, BrokenContractsAreInternalErrors) {
  const auto refuses = [&](std::size_t rank, const SchedulerEvent& event, const std::string& part) {
    expect_error(ErrorCode::internal, {part}, [&] { ranks[rank].handle(event); });
  };
  refuses(1, event::Arrived{denoising(1, 1)}, "not the leader");
  refuses(1, event::Cancelled{1}, "not the leader");
  refuses(1, event::StopRequested{}, "not the leader");
  refuses(0, event::Arrived{{.id = 1}}, "nothing to do");
  refuses(0, event::Arrived{denoising(1, 0)}, "0 passes of stack 0");
  refuses(0, event::Arrived{{.id = 1, .legs = {{7, 1}}}}, "1 passes of stack 7");
  refuses(0, event::Reserved{{.id = 1}}, "nobody asked");
  refuses(0, event::SampleFailed{{1, {}}}, "does not run");
  refuses(0, event::PassFinished{1}, "out of turn");
  refuses(0, event::PassClosing{2}, "out of turn");
  refuses(0, event::Agreed{1, {}}, "before it began");
}

}  // namespace
}  // namespace lamina
