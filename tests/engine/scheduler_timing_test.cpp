#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "engine/scheduler_simulator.h"
#include "offload/timing_model.h"

namespace lamina::testing {
namespace {

using ::testing::IsEmpty;

constexpr std::size_t kUnits = 12;
constexpr std::size_t kUnitBytes = 100'000'000;  // 2 ms for half of it over the link, 0.5 ms to gather

/// Replicas of one rank that stream `kUnits` units.
Scenario scenario_of(std::size_t replicas) {
  Scenario scenario;
  scenario.sizes = {.data = replicas};
  scenario.stacks = {{std::vector<std::size_t>(kUnits, kUnitBytes)}};
  scenario.memory_bytes.assign(replicas, 1000);
  scenario.control_latency = nanoseconds(100'000);
  return scenario;
}

/// A request of `steps` passes that compute `unit_time` in each unit.
SimulatedRequest denoising(RequestId id, std::size_t steps, nanoseconds unit_time) {
  return {.request = {.id = id, .legs = {{0, steps, unit_time * kUnits}}}, .memory_bytes = 100};
}

SimulationResult simulate_cleanly(const Scenario& scenario) {
  SimulationResult result = simulate(scenario);
  EXPECT_THAT(result.faults, IsEmpty());
  return result;
}

nanoseconds median_step(const RankResult& rank) {
  std::vector<nanoseconds> steps;
  for (std::size_t pass = 1; pass < rank.pass_ends.size(); ++pass)
    steps.push_back(rank.pass_ends[pass] - rank.pass_ends[pass - 1]);
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() / 2];
}

/// Share of its passes' time in which a rank that has samples in all of them did not compute.
double measured_loss(const RankResult& rank) {
  const nanoseconds time = rank.pass_ends.back() - rank.pass_ends.front();
  nanoseconds compute{0};
  for (std::size_t pass = 1; pass < rank.pass_computes.size(); ++pass) compute += rank.pass_computes[pass];
  return 1 - double(compute.count()) / double(time.count());
}

/// Steady step of a rank's streams without peers to wait for and without a control plane.
nanoseconds step_without_peers(const Scenario& scenario, nanoseconds unit_time) {
  const TimingInputs inputs{
      .units = std::vector<UnitCost>(kUnits, UnitCost{.image_bytes = kUnitBytes, .compute = unit_time}),
      .ring_bytes = scenario.slots * kUnitBytes,
      .link_bytes_per_second = scenario.link_bytes_per_second,
      .gather = GatherCost{.ranks = scenario.sizes.data, .bytes_per_second = scenario.gather_bytes_per_second},
      .passes = 20};
  return predict_timing(inputs).steady_pass;
}

/// Compute of a unit in ns, slots of the ring.
class IdleReplicas : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(IdleReplicas, AddAtMostFivePercentToALoneRequestsStep) {
  const nanoseconds unit_time(std::get<0>(GetParam()));
  for (const std::size_t replicas : {2, 4}) {
    Scenario scenario = scenario_of(replicas);
    scenario.slots = std::get<1>(GetParam());
    scenario.requests = {denoising(1, 20, unit_time)};
    const double step = double(median_step(simulate_cleanly(scenario).ranks[0]).count());
    const double without = double(step_without_peers(scenario, unit_time).count());
    EXPECT_LE(step, 1.05 * without);
    EXPECT_GE(step, without);
    std::cout << fmt::format("{} us a unit, {} slots, {} replicas: idle ones add {:.2f} %\n", unit_time.count() / 1000,
                             scenario.slots, replicas, 100 * step / without - 100);
  }
}

// Bound by the link, balanced, bound by compute; a ring that holds the whole stack leaves the control plane no lead.
INSTANTIATE_TEST_SUITE_P(All, IdleReplicas,
                         ::testing::Combine(::testing::Values(200'000, 2'000'000, 8'000'000),
                                            ::testing::Values(2, 3, kUnits)));

TEST(SchedulerTiming, AnIdleGroupDoesNotSpin) {
  constexpr std::size_t kSteps = 4;
  Scenario scenario = scenario_of(2);
  scenario.requests = {denoising(1, kSteps, nanoseconds(1'000'000)), denoising(2, kSteps, nanoseconds(1'000'000))};
  scenario.requests[1].arrival = nanoseconds(3'600'000'000'000);
  const SimulationResult result = simulate_cleanly(scenario);
  // Each: placed, voted and first pass, one round a further pass, nothing follows, settled.
  EXPECT_EQ(result.ranks[0].ledger.control.size(), 2 * (2 + (kSteps - 1) + 2));
}

TEST(SchedulerTiming, RequestsFollowEachOtherWithoutAGap) {
  Scenario scenario = scenario_of(1);
  for (RequestId id = 1; id <= 5; ++id) scenario.requests.push_back(denoising(id, 4, nanoseconds(8'000'000)));
  const RankResult rank = simulate_cleanly(scenario).ranks[0];
  ASSERT_EQ(rank.pass_ends.size(), 20u);
  EXPECT_LT(measured_loss(rank), 0.001);
}

TEST(SchedulerTiming, PredictedCouplingLossIsTheMeasuredOne) {
  Scenario scenario = scenario_of(2);
  scenario.requests = {denoising(1, 20, nanoseconds(8'000'000)), denoising(2, 20, nanoseconds(4'000'000))};
  const SimulationResult result = simulate_cleanly(scenario);
  EXPECT_NEAR(result.coupling.loss(), 0.25, 0.02);
  const double measured = (measured_loss(result.ranks[0]) + measured_loss(result.ranks[1])) / 2;
  EXPECT_NEAR(measured, result.coupling.loss(), 0.02);
  std::cout << fmt::format("coupling loss: predicted {:.1f} %, measured {:.1f} %\n", 100 * result.coupling.loss(),
                           100 * measured);
}

TEST(SchedulerTiming, RequestsOfLikePassTimesAreGrouped) {
  Scenario scenario = scenario_of(2);
  for (RequestId id = 1; id <= 16; ++id)
    scenario.requests.push_back(denoising(id, 4, nanoseconds(id % 2 == 1 ? 10'000'000 : 2'000'000)));
  // In order of arrival each large one would run beside a small one: (10 - 2) / (2 * 10) = 40 % lost.
  const double loss = simulate_cleanly(scenario).coupling.loss();
  EXPECT_LT(loss, 0.1);
  std::cout << fmt::format("coupling loss of sixteen requests of two sizes: {:.1f} %\n", 100 * loss);
}

TEST(SchedulerTiming, CoBatchedSamplesShareTheTransfersOfAPass) {
  const auto time_of = [](std::size_t samples) {
    Scenario scenario = scenario_of(2);
    scenario.samples_per_replica = samples;
    for (RequestId id = 1; id <= 8; ++id) scenario.requests.push_back(denoising(id, 10, nanoseconds(500'000)));
    return *simulate_cleanly(scenario).ranks[0].ended_at;
  };
  // A unit computes 2 ms for four samples and is 2 ms on the link: the passes are a quarter, and hardly longer.
  EXPECT_LT(double(time_of(4).count()), 0.32 * double(time_of(1).count()));
}

}  // namespace
}  // namespace lamina::testing
