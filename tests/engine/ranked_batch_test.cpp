// Batches one behind the other on ranks that stay.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/ranked_fixture.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

OffloadOptions streamed() {
  return {.stream = true, .ring_slots = 2, .poison_released = true};
}

TEST(RankedBatches, EachIsServedAsIfItWereAlone) {
  const std::vector<GenerateRequest> requests = ragged_requests();
  for (const std::size_t chunks : {0, 1}) {
    const std::vector<RankedRun> runs = run_batches_on_ranks(
        tiny_ranks(2, streamed(), chunks), {{{requests[3], requests[0]}}, {{requests[4]}}, {{requests[0]}}});
    ASSERT_EQ(runs.size(), 3U);
    expect_same(runs[0].outcomes[0], lone_results()[3]);
    expect_same(runs[0].outcomes[1], lone_results()[0]);
    expect_same(runs[1].outcomes[0], lone_results()[4]);
    expect_same(runs[2].outcomes[0], lone_results()[0]);
    const RankTotals& totals = runs[2].ranks[0].totals;  // of that batch alone: encode, two steps, decode
    EXPECT_EQ(totals.passes, 4U);
    EXPECT_EQ(totals.pass_ends.size(), 4U);
    EXPECT_TRUE(std::ranges::is_sorted(totals.pass_ends));
  }
}

TEST(RankedBatches, AFaultEndsThoseToCome) {
  const std::vector<GenerateRequest> requests = ragged_requests();
  const RankedHooks faulty{.passed = [](const RankedProgress&) { fail(ErrorCode::device, "planted"); },
                           .is_cancelled = {}};
  const std::vector<RankedRun> runs = run_batches_on_ranks(
      tiny_ranks(2, streamed(), 1), {{{requests[4]}, {}}, {{requests[0]}, faulty}, {{requests[4]}, {}}});
  expect_same(runs[0].outcomes[0], lone_results()[4]);
  for (const RankReport& rank : runs[0].ranks) EXPECT_FALSE(rank.fault);
  for (std::size_t batch = 1; batch < runs.size(); ++batch) {
    for (const RankReport& rank : runs[batch].ranks) {
      ASSERT_TRUE(rank.fault);
      EXPECT_EQ(rank.fault->failure.message, "planted");
    }
    ASSERT_TRUE(runs[batch].outcomes[0].failure);
    EXPECT_THAT(runs[batch].outcomes[0].failure->message, HasSubstr("planted"));
  }
}

}  // namespace
}  // namespace lamina::test
