// Ranks that fail: while they start, in any pass, in a collective. All ranks of their group end soon, with the reason
// of the first.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "base/error.h"
#include "engine/ranked_fixture.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kReplicas = 3;

OffloadOptions streamed() {
  return {.stream = true, .ring_slots = 2};
}

void expect_group_ended(const RankedRun& run, std::size_t rank, ErrorCode code, const std::string& part) {
  for (const RankReport& report : run.ranks) {
    ASSERT_TRUE(report.fault);
    EXPECT_EQ(report.fault->rank, rank);
    EXPECT_EQ(to_string(report.fault->failure.code), std::string(to_string(code)));
    EXPECT_THAT(report.fault->failure.message, HasSubstr(part));
  }
  for (const RankedOutcome& outcome : run.outcomes) {
    if (outcome.result) continue;  // done before
    ASSERT_TRUE(outcome.failure);
    EXPECT_THAT(outcome.failure->message, HasSubstr(part));
  }
}

/// A device of which copy number `copy` is refused, on rank `rank`.
std::function<CpuDeviceOptions(std::size_t)> refusing(std::size_t rank, std::uint64_t copy) {
  return [=](std::size_t mine) {
    CpuDeviceOptions options;
    if (mine == rank) options.faults.fail_copy = copy;
    return options;
  };
}

TEST(RankedFaults, ARefusedCopyAtAnyPlaceEndsTheGroupWithItsReason) {
  std::size_t ended = 0;
  for (const std::uint64_t copy : {1, 2, 9, 30, 70, 110, 160})
    for (const std::size_t rank : {std::size_t{0}, kReplicas - 1}) {
      SCOPED_TRACE("copy " + std::to_string(copy) + " of rank " + std::to_string(rank));
      const RankedRun run = run_on_ranks(tiny_ranks(kReplicas, streamed(), 1, refusing(rank, copy)), ragged_requests());
      if (!run.ranks[rank].fault) continue;  // fewer copies than that
      ++ended;
      expect_group_ended(run, rank, ErrorCode::device, "was refused");
    }
  EXPECT_GE(ended, 10U);
}

TEST(RankedFaults, ARankThatCannotStartEndsTheOthers) {
  for (const std::size_t rank : {0, 1, 2}) {
    RankedSetup setup = tiny_ranks(kReplicas, streamed(), 2);
    const auto create = setup.create_device;
    setup.create_device = [=](std::size_t mine) {
      if (mine == rank) fail(ErrorCode::unavailable, "planted: no such device");
      return create(mine);
    };
    const RankedRun run = run_on_ranks(setup, ragged_requests());
    expect_group_ended(run, rank, ErrorCode::unavailable, "planted");
    for (const RankedOutcome& outcome : run.outcomes) EXPECT_FALSE(outcome.result);
  }
}

TEST(RankedFaults, AnInterruptionBehindAnyPassEndsTheGroup) {
  for (std::size_t passes = 1; passes <= 6; ++passes) {
    std::size_t seen = 0;
    const RankedRun run =
        run_on_ranks(tiny_ranks(kReplicas, streamed(), 1), ragged_requests(), {.passed = [&](const RankedProgress&) {
                       if (++seen == passes) fail(ErrorCode::cancelled, "planted interruption");
                     }});
    EXPECT_EQ(seen, passes);
    expect_group_ended(run, 0, ErrorCode::cancelled, "planted interruption");
  }
}

TEST(RankedFaults, ARankThatHangsIsNamedInBoundedTime) {
  RankedSetup setup = tiny_ranks(2, streamed(), 1, [](std::size_t rank) {
    CpuDeviceOptions options;
    if (rank == 1)
      options.faults.delay = [hung = std::make_shared<std::atomic<bool>>(false)](std::string_view stream,
                                                                                 std::string_view work) {
        const bool hangs = stream == "weight gather" && work == "all-gather" && !hung->exchange(true);
        return std::chrono::milliseconds(hangs ? 1500 : 0);
      };
    return options;
  });
  setup.connector = connect_threads(2, std::chrono::milliseconds(300));
  const RankedRun run = run_on_ranks(setup, {small_request()});
  for (const RankReport& report : run.ranks) {
    ASSERT_TRUE(report.fault);
    EXPECT_THAT(report.fault->failure.message, HasSubstr("rank 1, which did not come within 300 ms"));
  }
}

TEST(RankedFaults, AnyExceptionEndsTheGroup) {
  const RankedRun run =
      run_on_ranks(tiny_ranks(kReplicas, streamed(), 1), ragged_requests(),
                   {.passed = [](const RankedProgress&) { throw std::runtime_error("planted, of another type"); }});
  expect_group_ended(run, 0, ErrorCode::internal, "planted, of another type");
}

/// Replicas that gather nothing from each other do not share a fate.
TEST(RankedFaults, RankLocalReplicasGoOn) {
  const RankedRun run = run_on_ranks(tiny_ranks(2, streamed(), 0, refusing(1, 5)), ragged_requests());
  EXPECT_FALSE(run.ranks[0].fault);
  ASSERT_TRUE(run.ranks[1].fault);
  for (std::size_t request = 0; request < run.outcomes.size(); ++request) {
    EXPECT_EQ(run.outcomes[request].result.has_value(), request % 2 == 0) << request;
    EXPECT_EQ(run.outcomes[request].failure.has_value(), request % 2 == 1) << request;
  }
}

TEST(RankedFaults, AMappedBackingIsRefusedWithAllGather) {
  OffloadOptions offload = streamed();
  offload.host_backing = HostBackingChoice::mapped;
  const RankedRun run = run_on_ranks(tiny_ranks(2, offload, 1), {small_request()});
  ASSERT_TRUE(run.ranks[0].fault);
  EXPECT_EQ(run.ranks[0].fault->failure.code, ErrorCode::incompatible);
  EXPECT_THAT(run.ranks[0].fault->failure.message, HasSubstr("--dlo-no-use-allgather"));
}

}  // namespace
}  // namespace lamina::test
