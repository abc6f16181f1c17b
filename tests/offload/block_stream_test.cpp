#include "offload/block_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "offload/staging.h"
#include "offload/toy_part.h"

namespace lamina::test {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::size_t total(const ToyPart::Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

struct Shape {
  const char* name;
  ToyPart::Sizes sizes;
  std::size_t ring_bytes;
};

class StreamShapes : public ::testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, StreamShapes,
                         ::testing::Values(Shape{"one_unit_one_slot", {1024}, 1024},
                                           Shape{"one_unit_two_slots", {1024}, 2048},
                                           Shape{"three_units_one_slot", {1024, 1024, 1024}, 1024},
                                           Shape{"three_units_two_slots", {1024, 1024, 1024}, 2048},
                                           Shape{"three_units_all_slots", {1024, 1024, 1024}, 3072},
                                           Shape{"one_larger_than_all_others", {512, 8192, 512, 1024}, 8192},
                                           Shape{"doubles_and_singles", {2048, 2048, 1024, 1024, 1024, 1024}, 4096},
                                           Shape{"odd_fit", {1536, 512, 1024, 2048, 512}, 3072}),
                         [](const auto& shape) { return shape.param.name; });

TEST_P(StreamShapes, EveryVisitReadsItsOwnBytesAndEachIsCopiedOnce) {
  constexpr std::size_t kPasses = 4;
  const Shape& shape = GetParam();
  TestDevice test;
  ToyPart part(*test.device, {shape.sizes});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {shape.ring_bytes, true});
  traverse(stream, part, *test.compute, shape.sizes.size(), kPasses);
  const StreamStatistics statistics = stream.take_statistics();

  EXPECT_EQ(part.runs(), shape.sizes.size() * kPasses);
  EXPECT_EQ(part.wrong_reads(), 0U);
  EXPECT_EQ(statistics.passes, kPasses);
  EXPECT_EQ(statistics.copied_bytes, total(shape.sizes) * kPasses);
  for (std::size_t unit = 0; unit < shape.sizes.size(); ++unit) {
    EXPECT_EQ(statistics.units[0][unit].visits, kPasses);
    EXPECT_EQ(statistics.units[0][unit].fetches, kPasses);
    EXPECT_EQ(statistics.units[0][unit].copied_bytes, kPasses * shape.sizes[unit]);
  }
  EXPECT_EQ(statistics.skipped_visits + statistics.repeated_visits + statistics.demand_fetches, 0U);
  EXPECT_EQ(test.device->memory().use().used_bytes, shape.ring_bytes);
}

TEST_P(StreamShapes, DelaysOnEitherStreamChangeNoByte) {
  const Shape& shape = GetParam();
  for (const std::string_view slow : {"copy", "compute"}) {
    auto random = std::make_shared<std::mt19937>(7);
    auto mutex = std::make_shared<std::mutex>();
    TestDevice test({.faults = {.delay = [=](std::string_view stream, std::string_view) {
                       const std::lock_guard lock(*mutex);
                       return stream == slow ? microseconds((*random)() % 800) : microseconds(0);
                     }}});
    ToyPart part(*test.device, {shape.sizes});
    BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {shape.ring_bytes, true});
    traverse(stream, part, *test.compute, shape.sizes.size(), 3);
    EXPECT_EQ(stream.take_statistics().copied_bytes, 3 * total(shape.sizes));
    EXPECT_EQ(part.wrong_reads(), 0U) << slow;
  }
}

TEST(BlockStream, ResidentsAreVisitedWithoutCopies) {
  TestDevice test;
  const ToyPart::Sizes sizes{1024, 1024, 1024, 1024};
  ToyPart part(*test.device, {sizes});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings({{false, true, false, true}}),
                     {2048, true});
  traverse(stream, part, *test.compute, 4, 3);
  const StreamStatistics statistics = stream.take_statistics();
  EXPECT_EQ(part.wrong_reads(), 0U);
  EXPECT_EQ(statistics.copied_bytes, 3U * 2048);
  EXPECT_EQ(statistics.units[0][1].visits, 3U);
  EXPECT_EQ(statistics.units[0][1].fetches, 0U);
}

TEST(BlockStream, AllResidentNeedsNoRing) {
  TestDevice test;
  ToyPart part(*test.device, {{1024, 512}});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings({{true, true}}), {});
  traverse(stream, part, *test.compute, 2, 2);
  EXPECT_EQ(stream.take_statistics().copied_bytes, 0U);
  EXPECT_EQ(part.runs(), 4U);
  EXPECT_EQ(part.wrong_reads(), 0U);
}

TEST(BlockStream, VisitsOutOfOrderSkippedAndRepeatedAreRightAndCounted) {
  TestDevice test;
  ToyPart part(*test.device, {ToyPart::Sizes(6, 1024)});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2048, true});
  const auto visit = [&](std::size_t unit) {
    UnitLease lease = stream.enter(unit);
    part.run({0, unit}, *test.compute);
    lease.leave();
  };
  stream.begin_pass(0);
  stream.announce_next(0);
  visit(0);
  visit(2);  // skips 1, which is in the ring; 2 is on its way
  visit(5);  // skips 3 and 4: 5 is fetched on demand
  visit(1);  // behind: fetched on demand
  visit(1);  // again
  stream.end_pass();
  stream.begin_pass(0);
  visit(0);
  visit(1);
  stream.end_pass();
  const StreamStatistics statistics = stream.take_statistics();
  EXPECT_EQ(part.wrong_reads(), 0U);
  EXPECT_EQ(part.runs(), 7U);
  EXPECT_EQ(statistics.skipped_visits, 1U + 2U + 4U);  // the second pass ended before units 2 .. 5
  EXPECT_EQ(statistics.repeated_visits, 2U);
  EXPECT_EQ(statistics.demand_fetches, 3U);
  std::uint64_t fetches = 0;
  std::uint64_t visits = 0;
  for (const UnitStatistics& unit : statistics.units[0]) {
    fetches += unit.fetches;
    visits += unit.visits;
  }
  EXPECT_EQ(visits, 7U);
  EXPECT_EQ(fetches, visits + statistics.discarded_fetches);
  EXPECT_EQ(statistics.copied_bytes, fetches * 1024);
}

TEST(BlockStream, SkippingWithinTheRingIsRight) {
  TestDevice test;
  ToyPart part(*test.device, {ToyPart::Sizes(5, 512)});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2560, true});
  for (int pass = 0; pass < 3; ++pass) {
    stream.begin_pass(0);
    for (const std::size_t unit : {1, 4}) {
      UnitLease lease = stream.enter(unit);
      part.run({0, unit}, *test.compute);
      lease.leave();
    }
    stream.end_pass();
  }
  const StreamStatistics statistics = stream.take_statistics();
  EXPECT_EQ(part.wrong_reads(), 0U);
  EXPECT_EQ(statistics.skipped_visits, 9U);
  EXPECT_EQ(statistics.demand_fetches, 0U);
  EXPECT_EQ(statistics.discarded_fetches, 9U);
}

/// A prompt stack, a schedule stack and two experts, as the video models have them, with a switch in the middle.
TEST(BlockStream, PhasesAndExpertsShareOneRing) {
  enum : std::size_t { kPrompt, kSchedule, kHighNoise, kLowNoise };
  TestDevice test;
  const std::vector<ToyPart::Sizes> stacks{{512, 512}, {2048}, {1024, 1024, 1024}, {1024, 1024, 1024}};
  ToyPart part(*test.device, stacks);
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2048, true});
  const std::vector<std::size_t> passes{kPrompt, kSchedule, kHighNoise, kHighNoise, kLowNoise, kLowNoise};
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    stream.begin_pass(passes[pass]);
    if (pass + 1 < passes.size()) stream.announce_next(passes[pass + 1]);
    for (std::size_t unit = 0; unit < stacks[passes[pass]].size(); ++unit) {
      UnitLease lease = stream.enter(unit);
      part.run({passes[pass], unit}, *test.compute);
      lease.leave();
    }
    stream.end_pass();
  }
  const StreamStatistics statistics = stream.take_statistics();
  EXPECT_EQ(part.wrong_reads(), 0U);
  EXPECT_EQ(part.runs(), 2U + 1U + 4U * 3U);
  EXPECT_EQ(statistics.copied_bytes, 1024U + 2048U + 4U * 3072U);
  EXPECT_EQ(statistics.discarded_fetches, 0U);
}

TEST(BlockStream, AnotherPassThanAnnouncedDiscardsWhatWasFetched) {
  TestDevice test;
  ToyPart part(*test.device, {{1024, 1024}, {1024, 1024}});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2048, true});
  for (const std::size_t stack : {0, 1}) {
    stream.begin_pass(stack);
    stream.announce_next(0);
    for (std::size_t unit = 0; unit < 2; ++unit) {
      UnitLease lease = stream.enter(unit);
      part.run({stack, unit}, *test.compute);
      lease.leave();
    }
    stream.end_pass();
  }
  EXPECT_EQ(stream.take_statistics().discarded_fetches, 2U);
  EXPECT_EQ(part.wrong_reads(), 0U);
}

TEST(BlockStream, ParametersAreBoundWhileLeasedOnlyAndSaySo) {
  TestDevice test;
  ToyPart part(*test.device, {{1024, 1024}});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings({{false, true}}), {1024, true});
  const auto touch = [&](std::size_t unit) { part.parameter({0, unit}, 0).view(); };
  stream.begin_pass(0);
  EXPECT_THAT([&] { touch(0); }, ThrowsMessage<Error>(HasSubstr("stack0.0.weight")));
  {
    UnitLease lease = stream.enter(0);
    EXPECT_NO_THROW(touch(0));
    EXPECT_THAT([&] { touch(1); }, ThrowsMessage<Error>(HasSubstr("stack0.1.weight")));
  }
  EXPECT_THAT([&] { touch(0); }, ThrowsMessage<Error>(HasSubstr("outside its lease")));
  {
    UnitLease lease = stream.enter(1);
    EXPECT_NO_THROW(touch(1));
  }
  EXPECT_THAT([&] { touch(1); }, ThrowsMessage<Error>(HasSubstr("stack0.1.weight")));
}

TEST(BlockStream, ReleasedBytesArePoisoned) {
  TestDevice test;
  ToyPart part(*test.device, {{1024}});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {1024, true});
  stream.begin_pass(0);
  UnitLease lease = stream.enter(0);
  const std::byte* data = part.parameter({0, 0}, 0).view().data();
  lease.leave();
  stream.end_pass();
  test.compute->synchronize();
  for (std::size_t i = 0; i < 1024; ++i) ASSERT_EQ(data[i], std::byte{0xFF}) << i;
}

/// A copy that is refused, at every place: the error comes out, nothing stays booked, and the device goes on.
TEST(BlockStream, ARefusedCopyAtAnyPlaceLeavesNothingBehind) {
  const ToyPart::Sizes sizes(3, 1024);
  for (std::uint64_t k = 1; k <= 6; ++k) {
    TestDevice test;
    ToyPart part(*test.device, {sizes});
    set_cpu_faults(*test.device, {.fail_copy = k});
    try {
      BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2048, true});
      traverse(stream, part, *test.compute, 3, 2);
      FAIL() << "copy " << k << " did not fail";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device) << error.what();
    }
    EXPECT_EQ(test.device->memory().use().used_bytes, 0U);
    for (std::size_t unit = 0; unit < 3; ++unit) EXPECT_TRUE(part.parameter({0, unit}, 0).is_placeholder());
    BlockStream again(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2048, true});
    traverse(again, part, *test.compute, 3, 2);
    again.take_statistics();
    EXPECT_EQ(part.wrong_reads(), 0U);
  }
}

/// Everything that waits for events while a part streams and while data is staged.
void stream_and_stage(TestDevice& test, const ToyPart::Sizes& sizes) {
  ToyPart part(*test.device, {sizes});
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings(), {2048, true});
  traverse(stream, part, *test.compute, sizes.size(), 2);
  test.compute->synchronize();
  const DeviceBuffer target = test.device->allocate(4096, "target");
  StagingUploader uploader(*test.device, *test.compute, 512);
  const std::vector<std::byte> source(4096);
  uploader.upload(target.data(), source, "upload");
  test.compute->synchronize();
}

TEST(BlockStreamMutations, AnyWaitLeftOutIsFound) {
  const ToyPart::Sizes sizes(4, 1024);
  std::set<std::pair<std::string, std::string>> waits;
  {
    TestDevice test({.faults = {.drop_wait = [&](std::string_view stream, std::string_view event) {
                       waits.emplace(stream, event);
                       return false;
                     }}});
    ASSERT_NO_THROW(stream_and_stage(test, sizes));
    EXPECT_GT(test.device->order().proven_pairs(), 0U);
  }
  EXPECT_THAT(waits,
              ::testing::IsSupersetOf(
                  {std::pair<std::string, std::string>{"compute", "ready"}, {"copy", "free"}, {"host", "staging"}}));
  // Reading the times of a visit is no matter of memory order: the event of the harvest is not among the mutants.
  waits.erase({"host", "free"});
  for (const auto& [stream, event] : waits) {
    TestDevice test({.faults = {.drop_wait = [&](std::string_view at, std::string_view name) {
                       return at == stream && name == event;
                     }}});
    EXPECT_THAT([&] { stream_and_stage(test, sizes); }, ThrowsMessage<Error>(HasSubstr("missing wait")))
        << stream << " does not wait for " << event;
  }
}

struct Timed {
  ToyPart::Sizes sizes;
  std::vector<bool> resident;
  std::vector<nanoseconds> compute;
  std::size_t ring_bytes;
  double link_bytes_per_second;
  std::size_t passes;
};

Timed random_timed(std::mt19937& random) {
  Timed timed;
  const std::size_t units = 1 + random() % 7;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < units; ++i) {
    timed.sizes.push_back(512 * (1 + random() % 8));
    timed.resident.push_back(random() % 4 == 0);
    timed.compute.emplace_back(random() % 5000);
    largest = std::max(largest, timed.sizes.back());
  }
  timed.ring_bytes = largest + 512 * (random() % 24);
  timed.link_bytes_per_second = 1e9 * (0.2 + static_cast<double>(random() % 1000) / 250);
  timed.passes = 1 + random() % 4;
  return timed;
}

TimingPrediction predict(const Timed& timed) {
  TimingInputs inputs;
  for (std::size_t i = 0; i < timed.sizes.size(); ++i)
    inputs.units.push_back({timed.sizes[i], timed.compute[i], timed.resident[i]});
  inputs.ring_bytes = timed.ring_bytes;
  inputs.link_bytes_per_second = timed.link_bytes_per_second;
  inputs.passes = timed.passes;
  return predict_timing(inputs);
}

struct Recorded {
  std::vector<VisitTiming> timeline;
  StreamStatistics statistics;
};

Recorded record(const Timed& timed) {
  TestDevice test({.virtual_cost = [&](std::string_view, std::string_view work, std::size_t size_bytes) {
    if (work == "fetch unit") return transfer_time(size_bytes, timed.link_bytes_per_second);
    for (std::size_t unit = 0; unit < timed.sizes.size(); ++unit)
      if (work == ToyPart::work_name(unit)) return timed.compute[unit];
    return nanoseconds(0);
  }});
  ToyPart part(*test.device, {timed.sizes});
  BlockStreamOptions options{timed.ring_bytes, true};
  options.record_timeline = true;
  BlockStream stream(*test.device, *test.compute, *test.copy, &part, part.bindings({timed.resident}), options);
  traverse(stream, part, *test.compute, timed.sizes.size(), timed.passes);
  std::vector<VisitTiming> timeline = stream.take_timeline();
  return {std::move(timeline), stream.take_statistics()};
}

TEST(BlockStreamTiming, TheStreamRunsAsTheModelPredictsToTheNanosecond) {
  std::mt19937 random(20);
  for (int round = 0; round < 60; ++round) {
    const Timed timed = random_timed(random);
    const TimingPrediction prediction = predict(timed);
    const auto [recorded, statistics] = record(timed);
    EXPECT_EQ(statistics.stall, prediction.stall);
    EXPECT_EQ(statistics.copied_bytes, prediction.copied_bytes);
    nanoseconds unit_stall{0};
    for (const UnitStatistics& unit : statistics.units[0]) unit_stall += unit.stall;
    EXPECT_EQ(unit_stall, prediction.stall);
    ASSERT_EQ(recorded.size(), prediction.visits.size());
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      SCOPED_TRACE("round " + std::to_string(round) + " visit " + std::to_string(i));
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
}

}  // namespace
}  // namespace lamina::test
