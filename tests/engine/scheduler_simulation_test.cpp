#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "engine/random_scenario.h"
#include "engine/scheduler_simulator.h"

namespace lamina::testing {
namespace {

using ::testing::IsEmpty;

constexpr std::uint64_t kSchedules = 2000;

std::vector<std::string> ledger_differences(const Scenario& scenario, const SimulationResult& result) {
  std::vector<RankLedger> ledgers;
  for (const RankResult& rank : result.ranks) ledgers.push_back(rank.ledger);
  return compare_ledgers(Topology(scenario.sizes), ledgers, result.fault_at.has_value());
}

/// Visits of units that a sample makes on each rank of its replica when nothing happens to it.
std::size_t visits_of(const Scenario& scenario, const SimulatedRequest& request) {
  std::size_t visits = 0;
  for (const Leg& leg : request.request.legs) visits += leg.passes * scenario.stacks[leg.stack].unit_bytes.size();
  return visits;
}

/// On how many ranks a sample made all its visits.
std::size_t ranks_with_visits(const SimulationResult& result, RequestId id, std::size_t visits) {
  std::size_t ranks = 0;
  for (const RankResult& rank : result.ranks) {
    const auto found = rank.visits.find(id);
    if (found != rank.visits.end() && found->second == visits) ++ranks;
  }
  return ranks;
}

/// Bytes of the largest sample that all ranks of some replica can hold.
std::size_t largest_sample(const Scenario& scenario) {
  std::size_t largest = 0;
  for (const RankGroup& replica : Topology(scenario.sizes).groups(GroupKind::replica)) {
    std::size_t least = scenario.memory_bytes[replica.ranks[0]];
    for (const std::size_t rank : replica.ranks) least = std::min(least, scenario.memory_bytes[rank]);
    largest = std::max(largest, least);
  }
  return largest;
}

void expect_outcomes(const Scenario& scenario, const SimulationResult& result) {
  for (const RankResult& rank : result.ranks) {
    EXPECT_TRUE(rank.ended_at.has_value());
    EXPECT_EQ(rank.held_bytes, 0u);
    EXPECT_EQ(rank.settled, result.ranks[0].settled);
  }
  for (const SimulatedRequest& request : scenario.requests) {
    const auto settled = result.ranks[0].settled.find(request.request.id);
    ASSERT_NE(settled, result.ranks[0].settled.end()) << "request " << request.request.id << " is not settled";
    const std::optional<Failure>& failure = settled->second;
    if (!failure) {
      EXPECT_FALSE(request.failure.has_value());
      EXPECT_LE(request.memory_bytes, largest_sample(scenario));
      EXPECT_EQ(ranks_with_visits(result, request.request.id, visits_of(scenario, request)),
                Topology(scenario.sizes).replica_size())
          << "request " << request.request.id;
      continue;
    }
    switch (failure->code) {
      case ErrorCode::cancelled: EXPECT_TRUE(request.cancelled_at.has_value()); break;
      case ErrorCode::internal: EXPECT_TRUE(request.failure.has_value()); break;
      case ErrorCode::incompatible: EXPECT_EQ(scenario.wave_policy, WavePolicy::strict); break;
      case ErrorCode::out_of_device_memory: EXPECT_GT(request.memory_bytes, largest_sample(scenario)); break;
      default: ADD_FAILURE() << failure->message;
    }
  }
}

TEST(SchedulerSimulation, SchedulesEndWithEqualLedgers) {
  std::size_t completed = 0;
  std::size_t requests = 0;
  CouplingReport coupling;
  for (std::uint64_t seed = 1; seed <= kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Scenario scenario = random_scenario(seed);
    const SimulationResult result = simulate(scenario);
    EXPECT_THAT(result.faults, IsEmpty());
    EXPECT_THAT(ledger_differences(scenario, result), IsEmpty());
    expect_outcomes(scenario, result);
    requests += scenario.requests.size();
    for (const auto& [id, failure] : result.ranks[0].settled) completed += failure ? 0 : 1;
    coupling.working += result.coupling.working;
    coupling.lost += result.coupling.lost;
  }
  EXPECT_GT(completed, requests * 7 / 10);
  std::cout << fmt::format("{} of {} requests completed; coupling loss {:.1f} %\n", completed, requests,
                           100 * coupling.loss());
}

/// What every survivor of a fault says was the first failure.
std::string expected_reason(const SimulatedFault& fault) {
  switch (fault.kind) {
    case SimulatedFault::Kind::reported: return "the planted fault";
    case SimulatedFault::Kind::killed: return fmt::format("rank {} was lost", fault.rank);
    case SimulatedFault::Kind::stuck: return "a collective is stuck";
  }
  return {};
}

nanoseconds most_time_to_end(SimulatedFault::Kind kind) {
  switch (kind) {
    case SimulatedFault::Kind::reported: return kNoticeTime;
    case SimulatedFault::Kind::killed: return kLossTime + kReasonGrace;
    case SimulatedFault::Kind::stuck: return kWatchdogTime + kNoticeTime;
  }
  return {};
}

/// All survivors end in bounded time, with the reason of the first failure or because everything was served before;
/// nothing is lost or held.
void expect_survivors_end(const Scenario& scenario, const SimulationResult& result) {
  EXPECT_THAT(result.faults, IsEmpty());
  EXPECT_THAT(ledger_differences(scenario, result), IsEmpty());
  for (const RankResult& rank : result.ranks) {
    if (rank.died) continue;
    ASSERT_TRUE(rank.ended_at.has_value());
    EXPECT_EQ(rank.held_bytes, 0u);
    if (!rank.fault) continue;
    ASSERT_TRUE(result.fault_at.has_value());
    EXPECT_EQ(rank.fault->failure.message, expected_reason(*scenario.fault));
    EXPECT_EQ(rank.fault->failure.code, ErrorCode::device);
    // A stuck device is noticed when the last of the others has nothing left to do.
    const bool is_stuck = scenario.fault->kind == SimulatedFault::Kind::stuck;
    const nanoseconds slack = is_stuck ? nanoseconds(1'000'000'000) : nanoseconds{0};
    EXPECT_LE(*rank.ended_at - *result.fault_at, most_time_to_end(scenario.fault->kind) + slack);
  }
  if (result.ranks[0].died) return;
  for (const SimulatedRequest& request : scenario.requests)
    EXPECT_EQ(result.ranks[0].settled.count(request.request.id), 1u) << "request " << request.request.id;
}

TEST(SchedulerSimulation, SchedulesWithADeviceFaultEndInBoundedTime) {
  std::size_t failed_groups = 0;
  for (std::uint64_t seed = 1; seed <= kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Scenario scenario = random_scenario(seed);
    const Scenario faulty = with_random_fault(scenario, simulate(scenario).events, seed);
    const SimulationResult result = simulate(faulty);
    expect_survivors_end(faulty, result);
    for (const RankResult& rank : result.ranks)
      if (rank.fault) {
        ++failed_groups;
        break;
      }
  }
  EXPECT_GT(failed_groups, kSchedules / 2);
}

/// Two replicas of two tensor parallel ranks, three requests that overlap.
Scenario small_scenario() {
  Scenario scenario;
  scenario.sizes = {.data = 2, .tensor = 2};
  scenario.stacks = {{{10'000'000, 20'000'000}}, {{30'000'000, 10'000'000, 20'000'000}}};
  scenario.memory_bytes = {100, 100, 100, 100};
  for (RequestId id = 1; id <= 3; ++id)
    scenario.requests.push_back(
        {.request = {.id = id, .legs = {{0, 1, nanoseconds(1'000'000)}, {1, id + 1, nanoseconds(3'000'000)}}},
         .arrival = nanoseconds(static_cast<std::int64_t>(id) * 2'000'000),
         .memory_bytes = 60,
         .collective_bytes = 100'000});
  return scenario;
}

TEST(SchedulerSimulation, AFaultAtAnyStepOnAnyRankEndsTheGroup) {
  Scenario scenario = small_scenario();
  const std::size_t events = simulate(scenario).events;
  std::size_t failed_groups = 0;
  for (const auto kind : {SimulatedFault::Kind::reported, SimulatedFault::Kind::killed, SimulatedFault::Kind::stuck})
    for (std::size_t rank = 0; rank < 4; ++rank)
      for (std::size_t event = 0; event < events && !HasFailure(); ++event) {
        SCOPED_TRACE(fmt::format("kind {}, rank {}, event {}", static_cast<int>(kind), rank, event));
        scenario.fault = SimulatedFault{.kind = kind, .rank = rank, .event = event};
        const SimulationResult result = simulate(scenario);
        expect_survivors_end(scenario, result);
        if (result.fault_at) ++failed_groups;
      }
  EXPECT_GT(failed_groups, events * 3 * 4 * 9 / 10);
}

/// Whether the simulation notices that a rank enters its n-th and its next collective in the wrong order.
bool is_swap_caught(Scenario scenario, const PlantedSwap& swap) {
  scenario.swap = swap;
  const SimulationResult result = simulate(scenario);
  return !result.faults.empty() || !ledger_differences(scenario, result).empty();
}

TEST(SchedulerSimulation, AnySwapOfTwoCollectivesIsCaught) {
  const Scenario scenario = small_scenario();
  const SimulationResult clean = simulate(scenario);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::vector<CollectiveRecord>& ledger = clean.ranks[rank].ledger.data;
    EXPECT_GT(ledger.size(), 20u);
    for (std::size_t first = 0; first < ledger.size(); ++first)
      EXPECT_TRUE(is_swap_caught(scenario, {.rank = rank, .collective = first}))
          << "rank " << rank << ", from " << describe(ledger[first]);
  }
}

TEST(SchedulerSimulation, SwapsInRandomSchedulesAreCaught) {
  std::size_t swaps = 0;
  for (std::uint64_t seed = 1; seed <= kSchedules / 10; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const SimulationResult clean = simulate(scenario);
    const std::size_t rank = seed % clean.ranks.size();
    const std::size_t collectives = clean.ranks[rank].ledger.data.size();
    if (collectives == 0) continue;
    ++swaps;
    EXPECT_TRUE(is_swap_caught(scenario, {.rank = rank, .collective = seed * 7919 % collectives})) << "seed " << seed;
  }
  EXPECT_GT(swaps, kSchedules / 20);
}

}  // namespace
}  // namespace lamina::testing
