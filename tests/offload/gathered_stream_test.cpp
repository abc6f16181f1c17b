// Units that several ranks gather while they stream.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/expect_error.h"
#include "offload/stored_toy.h"
#include "offload/timing_model.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using ::testing::Each;
using ::testing::Eq;

std::size_t largest_padded(const ToyPart::Sizes& sizes, const Sharding& sharding) {
  return padded(*std::max_element(sizes.begin(), sizes.end()), sharding.ranks, sharding.chunks);
}

class GatheredStream : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t, std::size_t>> {
 protected:
  std::size_t ranks() const { return std::get<0>(GetParam()); }
  std::size_t chunks() const { return std::get<1>(GetParam()); }
  std::size_t slots() const { return std::get<2>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Shardings, GatheredStream,
                         ::testing::Combine(::testing::Values(2, 3, 4), ::testing::Values(1, 2, 5),
                                            ::testing::Values(1, 2, 3)));

TEST_P(GatheredStream, EveryVisitReadsItsOwnBytesWhoeverDawdles) {
  constexpr std::size_t kPasses = 3;
  const ToyPart::Sizes sizes{2048, 512, 8192, 1024, 1536};
  const StoredToy toy({sizes});
  const std::size_t ring_bytes = slots() * largest_padded(sizes, {ranks(), chunks()});
  std::size_t gathered = 0;
  for (const std::size_t size : sizes) gathered += kPasses * padded(size, ranks(), chunks());
  for (const std::string_view slow : {"copy", "weight gather", "compute", "none"}) {
    const auto dawdling = [&](std::size_t rank) {
      const auto random = std::make_shared<std::mt19937>(rank);
      return CpuDeviceOptions{.faults = {.delay = [=](std::string_view stream, std::string_view) {
                                return microseconds(stream == slow && rank < 2 ? (*random)() % 400 : 0);
                              }}};
    };
    const auto errors = run_ranks(
        ranks(),
        [&](LocalRank& mine) {
          GatheredToy streamed(mine, toy, chunks(), ring_bytes);
          traverse(streamed.stream, streamed.part, *streamed.compute, sizes.size(), kPasses);
          const StreamStatistics statistics = streamed.stream.take_statistics();
          EXPECT_EQ(streamed.part.wrong_reads(), 0U) << slow;
          EXPECT_EQ(streamed.part.runs(), kPasses * sizes.size());
          EXPECT_EQ(statistics.gathered_bytes, gathered);
          EXPECT_EQ(statistics.copied_bytes * ranks(), gathered);
          EXPECT_EQ(statistics.units[0][2].gathered_bytes, kPasses * padded(8192, ranks(), chunks()));
          EXPECT_EQ(statistics.units[0][2].copied_bytes * ranks(), statistics.units[0][2].gathered_bytes);
          EXPECT_EQ(statistics.discarded_fetches, 0U);
        },
        std::nullopt, dawdling);
    EXPECT_THAT(errors, Each(Eq(std::nullopt)));
  }
}

/// Ranks that visit some units, others, or none at all gather the same.
TEST_P(GatheredStream, SkippedUnitsAreGatheredAllTheSame) {
  const ToyPart::Sizes sizes(6, 1024);
  const StoredToy toy({sizes});
  const std::size_t ring_bytes = slots() * padded(1024, ranks(), chunks());
  const std::vector<std::vector<std::size_t>> visits{{0, 1, 2, 3, 4, 5}, {1, 4}, {}, {5}};
  const auto errors = run_ranks(ranks(), [&](LocalRank& mine) {
    GatheredToy streamed(mine, toy, chunks(), ring_bytes);
    for (int pass = 0; pass < 3; ++pass) {
      streamed.stream.begin_pass(0);
      if (pass < 2) streamed.stream.announce_next(0);
      for (const std::size_t unit : visits[(mine.rank + pass) % visits.size()]) streamed.visit({0, unit});
      streamed.stream.end_pass();
    }
    const StreamStatistics statistics = streamed.stream.take_statistics();
    EXPECT_EQ(streamed.part.wrong_reads(), 0U);
    EXPECT_EQ(statistics.gathered_bytes, 3 * 6 * padded(1024, ranks(), chunks()));
    EXPECT_EQ(statistics.demand_fetches, 0U);
    EXPECT_EQ(statistics.discarded_fetches, 3 * 6 - streamed.part.runs());
    EXPECT_EQ(statistics.skipped_visits, statistics.discarded_fetches);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(GatheredStreamOrder, IsThatOfThePassAndNoOther) {
  const StoredToy toy({ToyPart::Sizes(4, 1024), ToyPart::Sizes(2, 1024)});
  const auto errors = run_ranks(2, [&](LocalRank& mine) {
    GatheredToy streamed(mine, toy, 1, 2048);
    streamed.stream.begin_pass(0);
    streamed.stream.announce_next(1);
    streamed.visit({0, 2});
    expect_error(ErrorCode::internal, {"unit 1 entered behind unit 3", "in order"}, [&] { streamed.stream.enter(1); });
    expect_error(ErrorCode::internal, {"unit 2 entered behind unit 3"}, [&] { streamed.stream.enter(2); });
    streamed.stream.end_pass();
    expect_error(ErrorCode::internal, {"stack 0 begun", "another"}, [&] { streamed.stream.begin_pass(0); });
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(GatheredStreamOrder, PassesOfOtherStacksFollowWithAndWithoutBeingAnnounced) {
  const StoredToy toy({ToyPart::Sizes(3, 1024), ToyPart::Sizes(2, 2048)});
  const auto errors = run_ranks(3, [&](LocalRank& mine) {
    GatheredToy streamed(mine, toy, 2, 2 * padded(2048, 3, 2));
    for (const std::size_t stack : {0, 1, 0, 0, 1}) {
      streamed.stream.begin_pass(stack);
      for (std::size_t unit = 0; unit < toy.stacks()[stack].size(); ++unit) streamed.visit({stack, unit});
      streamed.stream.end_pass();
    }
    streamed.stream.begin_pass(1);
    streamed.stream.announce_next(0);
    streamed.stream.end_pass();
    streamed.stream.begin_pass(0);
    for (std::size_t unit = 0; unit < 3; ++unit) streamed.visit({0, unit});
    streamed.stream.end_pass();
    streamed.stream.take_statistics();
    EXPECT_EQ(streamed.part.wrong_reads(), 0U);
    EXPECT_EQ(streamed.part.runs(), 3U + 2 + 3 + 3 + 2 + 3);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

struct Timed {
  ToyPart::Sizes sizes;
  std::vector<bool> resident;
  std::vector<nanoseconds> compute;
  Sharding sharding;
  std::size_t ring_bytes = 0;
  double link_bytes_per_second = 0;
  double gather_bytes_per_second = 0;
  std::size_t passes = 0;
};

Timed random_timed(std::mt19937& random) {
  Timed timed;
  timed.sharding = {2 + random() % 3, 1 + random() % 5};
  for (std::size_t i = 0, units = 1 + random() % 7; i < units; ++i) {
    timed.sizes.push_back(512 * (1 + random() % 24));
    timed.resident.push_back(random() % 4 == 0);
    timed.compute.emplace_back(random() % 9000);
  }
  timed.ring_bytes = largest_padded(timed.sizes, timed.sharding) + 512 * (random() % 64);
  timed.link_bytes_per_second = 1e9 * (0.2 + static_cast<double>(random() % 1000) / 250);
  timed.gather_bytes_per_second = 1e9 * (0.4 + static_cast<double>(random() % 1000) / 100);
  timed.passes = 1 + random() % 4;
  return timed;
}

TimingPrediction predict(const Timed& timed) {
  TimingInputs inputs;
  for (std::size_t i = 0; i < timed.sizes.size(); ++i)
    inputs.units.push_back(
        {padded(timed.sizes[i], timed.sharding.ranks, timed.sharding.chunks), timed.compute[i], timed.resident[i]});
  inputs.ring_bytes = timed.ring_bytes;
  inputs.link_bytes_per_second = timed.link_bytes_per_second;
  inputs.gather = GatherCost{timed.sharding.ranks, timed.gather_bytes_per_second, timed.sharding.chunks};
  inputs.passes = timed.passes;
  return predict_timing(inputs);
}

CpuDeviceOptions clock_of(const Timed& timed) {
  return {.virtual_cost = [&timed](std::string_view, std::string_view work, std::size_t size_bytes) {
    if (work == "fetch unit") return transfer_time(size_bytes, timed.link_bytes_per_second);
    if (work == "all-gather") return transfer_time(size_bytes, timed.gather_bytes_per_second);
    for (std::size_t unit = 0; unit < timed.sizes.size(); ++unit)
      if (work == ToyPart::work_name(unit)) return timed.compute[unit];
    return nanoseconds(0);
  }};
}

void expect_timeline(const std::vector<VisitTiming>& recorded, const TimingPrediction& prediction) {
  ASSERT_EQ(recorded.size(), prediction.visits.size());
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    SCOPED_TRACE("visit " + std::to_string(i));
    const VisitTiming& seen = recorded[i];
    const VisitTiming& told = prediction.visits[i];
    EXPECT_EQ(seen.pass, told.pass);
    EXPECT_EQ(seen.unit, told.unit);
    EXPECT_EQ(seen.copy_begin, told.copy_begin);
    EXPECT_EQ(seen.copy_end, told.copy_end);
    EXPECT_EQ(seen.ready, told.ready);
    EXPECT_EQ(seen.compute_begin, told.compute_begin);
    EXPECT_EQ(seen.compute_end, told.compute_end);
    EXPECT_EQ(seen.stall, told.stall);
  }
}

TEST(GatheredStreamTiming, RunsAsTheModelPredictsToTheNanosecondOnEveryRank) {
  std::mt19937 random(21);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Timed timed = random_timed(random);
    const TimingPrediction prediction = predict(timed);
    const StoredToy toy({timed.sizes});
    std::vector<std::vector<VisitTiming>> recorded(timed.sharding.ranks);
    std::vector<StreamStatistics> statistics(timed.sharding.ranks);
    const auto errors = run_ranks(
        timed.sharding.ranks,
        [&](LocalRank& mine) {
          GatheredToy streamed(mine, toy, timed.sharding.chunks, timed.ring_bytes, {timed.resident}, true);
          traverse(streamed.stream, streamed.part, *streamed.compute, timed.sizes.size(), timed.passes);
          recorded[mine.rank] = streamed.stream.take_timeline();
          statistics[mine.rank] = streamed.stream.take_statistics();
        },
        std::nullopt, [&](std::size_t) { return clock_of(timed); });
    ASSERT_THAT(errors, Each(Eq(std::nullopt)));
    for (std::size_t rank = 0; rank < timed.sharding.ranks; ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      expect_timeline(recorded[rank], prediction);
      EXPECT_EQ(statistics[rank].stall, prediction.stall);
      EXPECT_EQ(statistics[rank].copied_bytes, prediction.copied_bytes);
    }
  }
}

/// What all-gather is for: with a gather far faster than the link, two ranks take half the time of one.
TEST(GatheredStreamTiming, HalvesTheTimeOnTheLink) {
  Timed timed{.sizes = ToyPart::Sizes(4, 8192),
              .resident = std::vector<bool>(4),
              .compute = std::vector<nanoseconds>(4, nanoseconds(100)),
              .sharding = {2, 4},
              .ring_bytes = 16384,
              .link_bytes_per_second = 1e9,
              .gather_bytes_per_second = 1e12,
              .passes = 3};
  // 4096 ns a unit over each link, then the last chunk's gather of 2048 bytes.
  EXPECT_EQ(predict(timed).steady_pass, nanoseconds(4 * 4096));
  EXPECT_EQ(predict(timed).visits[0].ready, nanoseconds(4096 + 3));
  timed.sharding.chunks = 1;
  EXPECT_EQ(predict(timed).visits[0].ready, nanoseconds(4096 + 9));
}

}  // namespace
}  // namespace lamina::test
