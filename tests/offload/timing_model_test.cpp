#include "offload/timing_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lamina/error.h"
#include "offload/residents.h"

namespace lamina {
namespace {

using std::chrono::nanoseconds;
using testing::ElementsAreArray;

constexpr double kBytePerNs = 1e9;

/// Units of (bytes, compute in ns) at one byte per ns.
TimingInputs inputs_of(const std::vector<std::pair<std::size_t, int>>& units, std::size_t ring_bytes,
                       std::size_t passes) {
  TimingInputs inputs;
  inputs.ring_bytes = ring_bytes;
  inputs.link_bytes_per_second = kBytePerNs;
  inputs.passes = passes;
  for (const auto& [size, compute] : units) inputs.units.push_back({size, nanoseconds(compute)});
  return inputs;
}

struct Expected {
  int copy_begin, copy_end, compute_begin, compute_end, stall;
};

void expect_visits(const TimingPrediction& prediction, const std::vector<Expected>& expected) {
  ASSERT_EQ(prediction.visits.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const VisitTiming& visit = prediction.visits[i];
    EXPECT_EQ(visit.copy_begin.count(), expected[i].copy_begin) << "visit " << i;
    EXPECT_EQ(visit.copy_end.count(), expected[i].copy_end) << "visit " << i;
    EXPECT_EQ(visit.compute_begin.count(), expected[i].compute_begin) << "visit " << i;
    EXPECT_EQ(visit.compute_end.count(), expected[i].compute_end) << "visit " << i;
    EXPECT_EQ(visit.stall.count(), expected[i].stall) << "visit " << i;
  }
}

/// "f0.1 c0.1": fetch, then compute of unit 1 in pass 0.
std::string order_of(const TimingPrediction& prediction) {
  std::string text;
  for (const StreamAction& action : prediction.actions)
    text += (text.empty() ? "" : " ") + std::string(action.kind == StreamAction::Kind::fetch ? "f" : "c") +
            std::to_string(action.pass) + "." + std::to_string(action.unit);
  return text;
}

TEST(TransferTime, RoundsUp) {
  EXPECT_EQ(transfer_time(0, 25e9).count(), 0);
  EXPECT_EQ(transfer_time(1, 25e9).count(), 1);
  EXPECT_EQ(transfer_time(100, 25e9).count(), 4);
  EXPECT_EQ(transfer_time(101, 25e9).count(), 5);
  EXPECT_EQ(transfer_time(245367296, 25e9).count(), 9814692);
}

TEST(TransferTime, RefusesImpossibleRates) {
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e-300})
    EXPECT_THROW(transfer_time(100, rate), Error) << rate;
}

TEST(TimingModel, OneUnitAlternatesBetweenTwoHalves) {
  const TimingPrediction prediction = predict_timing(inputs_of({{10, 4}}, 20, 3));
  expect_visits(prediction, {{0, 10, 10, 14, 10}, {10, 20, 20, 24, 6}, {20, 30, 30, 34, 6}});
  EXPECT_EQ(prediction.total.count(), 34);
  EXPECT_EQ(prediction.stall.count(), 22);
  EXPECT_EQ(prediction.steady_pass.count(), 10);
  EXPECT_EQ(prediction.copied_bytes, 30u);
  EXPECT_EQ(order_of(prediction), "f0.0 f1.0 c0.0 f2.0 c1.0 c2.0");
}

TEST(TimingModel, OneUnitInARingOfItsSizeCopiesAndComputesInTurn) {
  const TimingPrediction prediction = predict_timing(inputs_of({{10, 4}}, 10, 2));
  expect_visits(prediction, {{0, 10, 10, 14, 10}, {14, 24, 24, 28, 10}});
}

TEST(TimingModel, ThreeUnitsOnTwoSlotsComputeBound) {
  const TimingPrediction prediction = predict_timing(inputs_of({{10, 25}, {10, 25}, {10, 25}}, 20, 2));
  expect_visits(prediction, {{0, 10, 10, 35, 10},
                             {10, 20, 35, 60, 0},
                             {35, 45, 60, 85, 0},
                             {60, 70, 85, 110, 0},
                             {85, 95, 110, 135, 0},
                             {110, 120, 135, 160, 0}});
  EXPECT_EQ(prediction.steady_pass.count(), 75);
  EXPECT_EQ(order_of(prediction), "f0.0 f0.1 c0.0 f0.2 c0.1 f1.0 c0.2 f1.1 c1.0 f1.2 c1.1 c1.2");
}

TEST(TimingModel, ThreeUnitsOnTwoSlotsLinkBound) {
  const TimingPrediction prediction = predict_timing(inputs_of({{10, 4}, {10, 4}, {10, 4}}, 20, 2));
  expect_visits(prediction, {{0, 10, 10, 14, 10},
                             {10, 20, 20, 24, 6},
                             {20, 30, 30, 34, 6},
                             {30, 40, 40, 44, 6},
                             {40, 50, 50, 54, 6},
                             {50, 60, 60, 64, 6}});
  EXPECT_EQ(prediction.stall.count(), 40);
  EXPECT_EQ(prediction.steady_pass.count(), 30);
}

TEST(TimingModel, OneUnitLargerThanAllOthers) {
  // The large unit lies at 10 .. 50 in the first pass. In the second its place is 0 .. 40, where the first unit of that
  // pass (at 10 .. 20) is in its way until it was computed.
  const TimingPrediction prediction = predict_timing(inputs_of({{10, 10}, {40, 10}, {10, 10}}, 50, 2));
  expect_visits(prediction, {{0, 10, 10, 20, 10},
                             {10, 50, 50, 60, 30},
                             {50, 60, 60, 70, 0},
                             {60, 70, 70, 80, 0},
                             {80, 120, 120, 130, 40},
                             {120, 130, 130, 140, 0}});
}

TEST(TimingModel, OneLargeUnitInARingOfTwoOfIt) {
  const TimingPrediction prediction = predict_timing(inputs_of({{10, 10}, {40, 10}, {10, 10}}, 80, 2));
  expect_visits(prediction, {{0, 10, 10, 20, 10},
                             {10, 50, 50, 60, 30},
                             {50, 60, 60, 70, 0},
                             {60, 70, 70, 80, 0},
                             {70, 110, 110, 120, 30},
                             {110, 120, 120, 130, 0}});
}

TEST(TimingModel, UnequalUnitsPackFurtherAhead) {
  // Two double and three single units, as in FLUX.2. Near the balance of link and compute a ring of two doubles costs
  // 85 ns a pass, not the 75 of the floor.
  const TimingPrediction prediction =
      predict_timing(inputs_of({{20, 15}, {20, 15}, {10, 15}, {10, 15}, {10, 15}}, 40, 2));
  expect_visits(prediction, {{0, 20, 20, 35, 20},
                             {20, 40, 40, 55, 5},
                             {40, 50, 55, 70, 0},
                             {50, 60, 70, 85, 0},
                             {60, 70, 85, 100, 0},
                             {85, 105, 105, 120, 5},
                             {105, 125, 125, 140, 5},
                             {125, 135, 140, 155, 0},
                             {135, 145, 155, 170, 0},
                             {145, 155, 170, 185, 0}});
  EXPECT_EQ(prediction.steady_pass.count(), 85);
}

TEST(TimingModel, ResidentUnitsBeginAtOnceAndCopyNothing) {
  TimingInputs inputs = inputs_of({{10, 4}, {10, 4}}, 10, 2);
  inputs.units[0].resident = true;
  const TimingPrediction prediction = predict_timing(inputs);
  expect_visits(prediction, {{0, 0, 0, 4, 0}, {0, 10, 10, 14, 6}, {0, 0, 14, 18, 0}, {14, 24, 24, 28, 6}});
  EXPECT_EQ(prediction.copied_bytes, 20u);
  EXPECT_EQ(order_of(prediction), "f0.1 c0.0 c0.1 f1.1 c1.0 c1.1");
}

TEST(TimingModel, NeedsNoLinkWhereNothingStreams) {
  TimingInputs inputs = inputs_of({{10, 4}, {10, 4}}, 0, 3);
  for (UnitCost& unit : inputs.units) unit.resident = true;
  inputs.link_bytes_per_second = 0;
  EXPECT_EQ(predict_timing(inputs).total.count(), 24);
}

/// The steady pass of eight link-bound blocks, four of them resident, in a two-deep ring.
TimingPrediction eight_blocks_with(ResidentPolicy policy) {
  TimingInputs inputs = inputs_of(std::vector<std::pair<std::size_t, int>>(8, {10, 4}), 20, 4);
  OffloadPlan plan{"transformer", {{"blocks"}}, {{"step", Phase::step, {}}}, {}};
  for (int i = 0; i < 8; ++i) plan.stacks[0].units.push_back({std::to_string(i), "all", 0, {}});
  const std::vector<bool> resident = choose_residents(plan, plan.stacks[0], 4, policy);
  for (std::size_t i = 0; i < 8; ++i) inputs.units[i].resident = resident[i];
  return predict_timing(inputs);
}

nanoseconds last_pass_stall(const TimingPrediction& prediction) {
  nanoseconds stall{0};
  for (const VisitTiming& visit : prediction.visits)
    if (visit.pass == prediction.visits.back().pass) stall += visit.stall;
  return stall;
}

TEST(TimingModel, LeadingResidentsLetTheLinkIdle) {
  // Spread, the link never rests: 4 x 10 ns a pass, 40 - 8 x 4 = 8 of them stall. Leading, both ring halves are full 16
  // ns before the residents are through (0 .. 16); the third copy waits for the first streamed unit (16 .. 20), so the
  // link idles 4 ns a pass.
  const TimingPrediction spread = eight_blocks_with(ResidentPolicy::spread);
  EXPECT_EQ(spread.steady_pass.count(), 40);
  EXPECT_EQ(last_pass_stall(spread).count(), 8);
  const TimingPrediction leading = eight_blocks_with(ResidentPolicy::leading);
  EXPECT_EQ(leading.steady_pass.count(), 44);
  EXPECT_EQ(last_pass_stall(leading).count(), 12);
}

TEST(TimingModel, GathersShardsOfTwoRanks) {
  TimingInputs inputs = inputs_of({{10, 4}, {10, 4}, {10, 4}}, 20, 1);
  inputs.gather = GatherCost{2, 2.5e9};
  const TimingPrediction prediction = predict_timing(inputs);
  expect_visits(prediction, {{0, 5, 9, 13, 9}, {5, 10, 14, 18, 1}, {13, 18, 22, 26, 4}});
  EXPECT_EQ(prediction.copied_bytes, 15u);
}

TEST(TimingModel, GathersInOrderOnOneLane) {
  // 11 bytes are 6 over each link; a gather takes 22 ns and is the bottleneck.
  TimingInputs inputs = inputs_of({{11, 4}, {11, 4}}, 22, 1);
  inputs.gather = GatherCost{2, 0.5e9};
  const TimingPrediction prediction = predict_timing(inputs);
  expect_visits(prediction, {{0, 6, 28, 32, 28}, {6, 12, 50, 54, 18}});
  EXPECT_EQ(prediction.visits[1].ready.count(), 50);
  EXPECT_EQ(prediction.copied_bytes, 12u);
}

bool refused(const TimingInputs& inputs) {
  try {
    predict_timing(inputs);
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument;
  }
}

TEST(TimingModel, RefusesBadInputs) {
  EXPECT_TRUE(refused(inputs_of({{10, 4}, {11, 4}}, 10, 1)));
  EXPECT_TRUE(refused(inputs_of({{0, 4}}, 10, 1)));
  TimingInputs inputs = inputs_of({{10, 4}}, 10, 1);
  inputs.link_bytes_per_second = 0;
  EXPECT_TRUE(refused(inputs));
  inputs.link_bytes_per_second = kBytePerNs;
  inputs.gather = GatherCost{2, 0};
  EXPECT_TRUE(refused(inputs));
  inputs.gather = GatherCost{0, 1e9};
  EXPECT_TRUE(refused(inputs));
}

/// A unit of 12 bytes on the device that comes as two segments of 4 bytes; each takes 3 ns to decode.
TimingInputs encoded_inputs(std::size_t landing_segments, std::size_t passes) {
  TimingInputs inputs = inputs_of({{12, 4}}, 24, passes);
  inputs.units[0].encoded = EncodedCost{.wire_bytes = 8, .segments = 2, .decode = nanoseconds(6)};
  inputs.landing_segments = landing_segments;
  return inputs;
}

TEST(TimingModel, SegmentsAreDecodedWhileTheNextAreCopied) {
  const TimingPrediction prediction = predict_timing(encoded_inputs(2, 2));
  // Decoded: 4..7, 8..11, 12..15, 16..19.
  expect_visits(prediction, {{0, 8, 11, 15, 11}, {8, 16, 19, 23, 4}});
  EXPECT_EQ(prediction.visits[0].ready.count(), 11);
  EXPECT_EQ(prediction.copied_bytes, 16U);
}

TEST(TimingModel, ASegmentLandsWhenItsPlaceHasBeenDecoded) {
  // Decoded: 4..7, 11..14, 18..21, 25..28.
  expect_visits(predict_timing(encoded_inputs(1, 2)), {{0, 11, 14, 18, 14}, {11, 25, 28, 32, 10}});
}

TEST(TimingModel, SegmentsAreGatheredBeforeTheyAreDecoded) {
  TimingInputs inputs = encoded_inputs(2, 1);
  inputs.gather = GatherCost{.ranks = 2, .bytes_per_second = kBytePerNs, .chunks = 5};
  // Copied: 0..2, 2..4; gathered: 2..6, 6..10; decoded: 6..9, 10..13.
  const TimingPrediction prediction = predict_timing(inputs);
  expect_visits(prediction, {{0, 4, 13, 17, 13}});
  EXPECT_EQ(prediction.copied_bytes, 4U);
}

TEST(TimingModel, RefusesWhatCannotLand) {
  EXPECT_TRUE(refused(encoded_inputs(0, 1)));
  TimingInputs inputs = encoded_inputs(1, 1);
  inputs.units[0].encoded->segments = 0;
  EXPECT_TRUE(refused(inputs));
  inputs.units[0].encoded = EncodedCost{.wire_bytes = 0};
  EXPECT_TRUE(refused(inputs));
}

TEST(TimingModel, OfNothingTakesNoTime) {
  EXPECT_EQ(predict_timing(inputs_of({}, 0, 2)).total.count(), 0);
  EXPECT_EQ(predict_timing(inputs_of({{10, 4}}, 10, 0)).total.count(), 0);
}

TimingInputs random_inputs(std::mt19937& random, bool equal_sizes) {
  TimingInputs inputs;
  inputs.link_bytes_per_second = kBytePerNs;
  inputs.passes = 1 + random() % 4;
  const std::size_t common = 1 + random() % 20;
  std::size_t largest = 1;
  for (std::size_t i = 0, units = 1 + random() % 8; i < units; ++i) {
    const std::size_t size = equal_sizes ? common : 1 + random() % 20;
    inputs.units.push_back({size, nanoseconds(random() % 30), random() % 3 == 0});
    largest = std::max(largest, size);
  }
  inputs.ring_bytes = largest + random() % (3 * largest);
  return inputs;
}

/// Equal units in a ring of `slots`: the j-th streamed visit is copied behind the one before it and behind the compute
/// of the one `slots` before it. An independent recurrence.
std::vector<nanoseconds> compute_ends_of_equal_units(const TimingInputs& inputs) {
  const std::size_t size = inputs.units[0].image_bytes;
  const std::size_t slots = inputs.ring_bytes / size;
  std::vector<nanoseconds> ends;
  std::vector<nanoseconds> streamed_ends;
  nanoseconds copy{0};
  nanoseconds compute{0};
  for (std::size_t pass = 0; pass < inputs.passes; ++pass)
    for (const UnitCost& unit : inputs.units) {
      if (!unit.resident) {
        if (streamed_ends.size() >= slots) copy = std::max(copy, streamed_ends[streamed_ends.size() - slots]);
        copy += nanoseconds(size);
        compute = std::max(compute, copy);
      }
      compute += unit.compute;
      if (!unit.resident) streamed_ends.push_back(compute);
      ends.push_back(compute);
    }
  return ends;
}

TEST(TimingModel, OfEqualUnitsFollowsTheRecurrence) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const TimingInputs inputs = random_inputs(random, true);
    std::vector<nanoseconds> ends;
    for (const VisitTiming& visit : predict_timing(inputs).visits) ends.push_back(visit.compute_end);
    ASSERT_THAT(ends, ElementsAreArray(compute_ends_of_equal_units(inputs))) << "round " << round;
  }
}

TEST(TimingModel, NeverBeatsTheFloorsAndNeverLosesAVisit) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const TimingInputs inputs = random_inputs(random, false);
    const TimingPrediction prediction = predict_timing(inputs);
    nanoseconds compute{0};
    std::size_t streamed_bytes = 0;
    for (const UnitCost& unit : inputs.units) {
      compute += unit.compute * static_cast<std::int64_t>(inputs.passes);
      streamed_bytes += unit.resident ? 0 : unit.image_bytes * inputs.passes;
    }
    ASSERT_EQ(prediction.total, compute + prediction.stall);
    ASSERT_GE(prediction.total, transfer_time(streamed_bytes, kBytePerNs));
    ASSERT_EQ(prediction.copied_bytes, streamed_bytes);
  }
}

TEST(TimingModel, IsNeverLaterWithAFasterLink) {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    TimingInputs inputs = random_inputs(random, false);
    nanoseconds before = nanoseconds::max();
    for (const double rate : {0.2e9, 0.5e9, 0.9e9, 1e9, 3e9}) {
      inputs.link_bytes_per_second = rate;
      const nanoseconds total = predict_timing(inputs).total;
      ASSERT_LE(total, before);
      before = total;
    }
  }
}

TEST(TimingModel, OfEqualUnitsIsNeverLaterWithMoreRingOrMoreResidents) {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    TimingInputs inputs = random_inputs(random, true);
    nanoseconds before = predict_timing(inputs).total;
    for (int more = 0; more < 5; ++more) {
      if (random() % 2 == 0) {
        inputs.ring_bytes += random() % (2 * inputs.units[0].image_bytes);
      } else {
        inputs.units[random() % inputs.units.size()].resident = true;
      }
      const nanoseconds total = predict_timing(inputs).total;
      ASSERT_LE(total, before);
      before = total;
    }
  }
}

TEST(TimingModel, OfUnequalUnitsMayBeLaterWithMoreRing) {
  // With 6 bytes the second unit fits behind the first, so the later ones lie elsewhere: the fourth is in the way of
  // the last, which is copied behind its compute instead of beside it.
  const std::vector<std::pair<std::size_t, int>> units{{4, 1}, {2, 2}, {2, 1}, {1, 4}, {4, 5}};
  EXPECT_EQ(predict_timing(inputs_of(units, 5, 1)).total.count(), 19);
  EXPECT_EQ(predict_timing(inputs_of(units, 6, 1)).total.count(), 22);
}

TEST(TimingModel, OfUnequalUnitsMayBeLaterWithMoreResidents) {
  TimingInputs inputs = inputs_of({{3, 3}, {4, 3}, {2, 5}, {4, 1}}, 8, 1);
  EXPECT_EQ(predict_timing(inputs).total.count(), 16);
  inputs.units[1].resident = true;
  EXPECT_EQ(predict_timing(inputs).total.count(), 19);
}

}  // namespace
}  // namespace lamina
