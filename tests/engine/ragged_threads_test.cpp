// Must hold 2: schedules of the simulator's generator, played by real ranks. Which samples share which passes depends
// on them, on cancellations and on samples that fail; no survivor's bytes do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "engine/engine_fixture.h"
#include "engine/lockstep/first_fault.h"
#include "engine/micro_ranks.h"
#include "engine/planted_pipeline.h"
#include "engine/random_scenario.h"

namespace lamina::test {
namespace {

using lamina::testing::Scenario;
using lamina::testing::SimulatedFailure;
using lamina::testing::SimulatedRequest;

constexpr std::size_t kSchedules = 5;

/// Small enough for two cores, and with something going wrong.
bool is_worth_playing(const Scenario& scenario) {
  const auto ends_early = [](const SimulatedRequest& request) {
    return request.cancelled_at.has_value() || request.failure.has_value();
  };
  const std::size_t ranks = Topology(scenario.sizes).world_size();
  return ranks >= 2 && ranks <= 6 && scenario.requests.size() >= 4 && scenario.requests.size() <= 6 &&
         std::ranges::any_of(scenario.requests, ends_early);
}

std::vector<std::uint64_t> seeds() {
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t seed = 1; chosen.size() < kSchedules; ++seed)
    if (is_worth_playing(lamina::testing::random_scenario(seed))) chosen.push_back(seed);
  return chosen;
}

/// Steps and size follow those of the simulated one.
GenerateRequest real_request(const SimulatedRequest& simulated) {
  const Leg& denoising = simulated.request.legs[simulated.request.legs.size() - 2];
  const auto steps = static_cast<std::int64_t>(1 + (denoising.passes - 1) % 3);
  return micro_request(simulated.request.id, 1 + denoising.pass_time / std::chrono::milliseconds(2), steps);
}

EngineConfig config_of(const Scenario& scenario, const std::filesystem::path& model) {
  EngineConfig config = micro_ranks(model, scenario.sizes);
  config.enable_distributed_layerwise_offload = true;
  config.dlo_slots = scenario.slots;
  config.parallel.dlo_use_allgather = scenario.gathers_weights && !scenario.sizes.use_hsdp;
  config.parallel.max_concurrent_requests_per_replica = scenario.samples_per_replica;
  if (config.parallel.dlo_use_allgather) config.parallel.dlo_wave_policy = scenario.wave_policy;
  return config;
}

RankedSetup setup_of(const EngineConfig& config) {
  std::vector<std::string> notes;
  return ranked_setup(config, notes);
}

/// Where in its replica the rank stands whose pipeline this is to be. Ranks of HSDP alone all stand first.
std::size_t place_of(const ModelGroups& groups) {
  const std::size_t slices = groups.tensor != nullptr ? groups.tensor->size() : 1;
  return (groups.sequence != nullptr ? groups.sequence->rank() : 0) * slices +
         (groups.tensor != nullptr ? groups.tensor->rank() : 0);
}

/// A sample that is to fail does so on one rank of its replica, where its denoising begins or where it ends.
void plant_failures(RankedSetup& setup, const Scenario& scenario) {
  setup.open_pipeline = [open = setup.open_pipeline, &scenario](const ModelGroups& groups) {
    const std::size_t place = place_of(groups);
    return std::make_unique<PlantedPipeline>(
        open(groups), [&scenario, place](const GenerateRequest& request, Moment moment, const std::string&) {
          for (const SimulatedRequest& simulated : scenario.requests) {
            if (simulated.request.id != request.seed || !simulated.failure) continue;
            const SimulatedFailure& failure = *simulated.failure;
            const bool hsdp = scenario.sizes.use_hsdp && scenario.sizes.sequence == 1;
            if (!hsdp && failure.rank_of_replica != place) continue;
            if (moment == (failure.visit % 2 == 0 ? Moment::upload : Moment::collect))
              fail(ErrorCode::corrupt, "planted: a bad value");
          }
        });
  };
}

/// A request is cancelled when it has been asked for so often, once a round.
class Cancellations {
 public:
  explicit Cancellations(const Scenario& scenario) : asked_(scenario.requests.size()) {
    for (const SimulatedRequest& request : scenario.requests)
      limits_.push_back(request.cancelled_at ? std::optional<std::size_t>((*request.cancelled_at - request.arrival) /
                                                                          std::chrono::milliseconds(10))
                                             : std::nullopt);
  }

  bool operator()(std::size_t request) { return asked_[request]++ >= limits_[request].value_or(SIZE_MAX); }

 private:
  std::vector<std::optional<std::size_t>> limits_;
  std::vector<std::atomic<std::size_t>> asked_;  // of each request by one thread, its leader's
};

/// On one replica that has nothing else to do.
std::vector<float> lone_run(EngineConfig config, const GenerateRequest& request) {
  config.parallel.sizes.data = 1;
  const RankedRun run = run_on_ranks(setup_of(config), {request});
  return tensor_of(run.outcomes.front().result.value(), "latents").values;
}

void expect_ended_rightly(const RankedOutcome& outcome, const SimulatedRequest& simulated, bool strict) {
  if (outcome.result) {
    EXPECT_FALSE(simulated.failure) << "survived its failure";
    return;
  }
  ASSERT_TRUE(outcome.failure);
  const ErrorCode code = outcome.failure->code;
  EXPECT_TRUE((simulated.cancelled_at && code == ErrorCode::cancelled) ||
              (simulated.failure && outcome.failure->message == "planted: a bad value") ||
              (strict && code == ErrorCode::incompatible))
      << outcome.failure->message;
}

class RaggedThreads : public ::testing::TestWithParam<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Schedules, RaggedThreads, ::testing::ValuesIn(seeds()),
                         [](const auto& seed) { return "seed" + std::to_string(seed.param); });

TEST_P(RaggedThreads, EverySurvivorEndsAsAlone) {
  const Scenario scenario = lamina::testing::random_scenario(GetParam());
  const ScratchFolder scratch;
  const EngineConfig config = config_of(scenario, micro_transformer(scratch.path(), 1, 2));
  std::vector<GenerateRequest> requests;
  for (const SimulatedRequest& simulated : scenario.requests) requests.push_back(real_request(simulated));
  RankedSetup setup = setup_of(config);
  plant_failures(setup, scenario);
  Cancellations cancellations(scenario);
  const RankedRun run =
      run_on_ranks(setup, requests, {.passed = {}, .is_cancelled = [&](std::size_t id) { return cancellations(id); }});

  for (const RankReport& rank : run.ranks) ASSERT_FALSE(rank.fault) << to_string(*rank.fault);
  std::size_t survivors = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    expect_ended_rightly(run.outcomes[i], scenario.requests[i], setup.wave_policy == WavePolicy::strict);
    if (!run.outcomes[i].result) continue;
    ++survivors;
    EXPECT_EQ(tensor_of(*run.outcomes[i].result, "latents").values, lone_run(config, requests[i]));
  }
  EXPECT_GT(survivors, 0U);
}

}  // namespace
}  // namespace lamina::test
