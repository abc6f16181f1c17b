// Replicas as threads: whatever they share and however they wait for each other, each request ends as it does alone.

#include "engine/ranks/ranked_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

#include "base/bytes.h"
#include "base/expect_error.h"
#include "engine/ranked_fixture.h"
#include "engine/ranks/gathered_run.h"
#include "offload/gathered_source.h"
#include "offload/pinned_source.h"

namespace lamina::test {
namespace {

void expect_all_same(const RankedRun& run) {
  ASSERT_EQ(run.outcomes.size(), lone_results().size());
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    expect_same(run.outcomes[i], lone_results()[i]);
  }
  for (const RankReport& rank : run.ranks) EXPECT_FALSE(rank.fault) << rank.fault->failure.message;
}

struct RankedMode {
  const char* name;
  std::size_t replicas;
  std::size_t chunks;  ///< 0: rank-local
  std::size_t slots;
  std::size_t residents = 0;
  std::size_t samples = 1;
  ShardPlace shards = ShardPlace::host;  ///< device: HSDP alone, without --enable-distributed-layerwise-offload
};

void PrintTo(const RankedMode& mode, std::ostream* out) {
  *out << mode.name;
}

OffloadOptions streamed(std::size_t slots, std::size_t residents) {
  return {.stream = true,
          .ring_slots = slots,
          .resident_blocks = residents,
          .resident_policy = ResidentPolicy::spread,
          .poison_released = true};
}

/// HSDP alone: what were replicas are ranks that compute the same and divide the weights.
void shard_on_devices(RankedSetup& setup) {
  setup.topology = Topology({.use_hsdp = true, .hsdp_shard = setup.topology.world_size()});
  setup.weights = GroupKind::shard;
  setup.shards = ShardPlace::device;
  setup.offload.stream = false;
}

class RankedModes : public ::testing::TestWithParam<RankedMode> {};

INSTANTIATE_TEST_SUITE_P(
    TinyShapes, RankedModes,
    ::testing::Values(RankedMode{"dp1_local", 1, 0, 2}, RankedMode{"dp2_gather", 2, 1, 2},
                      RankedMode{"dp2_gather_chunks5_slots3", 2, 5, 3}, RankedMode{"dp2_spread3", 2, 1, 2, 3},
                      RankedMode{"dp2_chunks2_spread3_slots3", 2, 2, 3, 3}, RankedMode{"dp2_local", 2, 0, 2},
                      RankedMode{"dp2_one_slot", 2, 2, 1}, RankedMode{"dp2_all_slots", 2, 1, 1000},
                      RankedMode{"dp2_all_resident", 2, 2, 2, 1000}, RankedMode{"dp2_cobatched", 2, 1, 2, 0, 2},
                      RankedMode{"dp3_chunks2", 3, 2, 2}, RankedMode{"dp3_spread3_slots3", 3, 5, 3, 3},
                      RankedMode{"dp3_local_spread3", 3, 0, 2, 3}, RankedMode{"dp4_chunks5", 4, 5, 2},
                      RankedMode{"dp4_spread3", 4, 1, 2, 3}, RankedMode{"dp4_local", 4, 0, 3},
                      RankedMode{"hsdp2", 2, 1, 2, 0, 1, ShardPlace::device},
                      RankedMode{"hsdp2_chunks5_cobatched", 2, 5, 2, 0, 2, ShardPlace::device},
                      RankedMode{"hsdp2_all_resident", 2, 2, 2, 1000, 1, ShardPlace::device},
                      RankedMode{"hsdp3_spread3_slots3", 3, 2, 3, 3, 1, ShardPlace::device},
                      RankedMode{"hsdp4_one_slot", 4, 5, 1, 0, 1, ShardPlace::device}),
    [](const auto& mode) { return mode.param.name; });

TEST_P(RankedModes, EveryRequestEndsAsAlone) {
  const RankedMode& mode = GetParam();
  RankedSetup setup = tiny_ranks(mode.replicas, streamed(mode.slots, mode.residents), mode.chunks);
  setup.samples_per_replica = mode.samples;
  const bool hsdp = mode.shards == ShardPlace::device;
  if (hsdp) shard_on_devices(setup);
  const RankedRun run = run_on_ranks(setup, ragged_requests());
  expect_all_same(run);

  std::set<std::size_t> used;
  for (const RankedOutcome& outcome : run.outcomes) used.insert(outcome.rank);
  EXPECT_EQ(used.size(), hsdp ? 1 : mode.replicas);
  for (const RankReport& rank : run.ranks) {
    EXPECT_GT(rank.totals.passes, 0U);
    if (mode.chunks == 0) {
      EXPECT_EQ(rank.totals.gathered_bytes, 0U);
    } else {  // lockstep: the same passes on all ranks, and of each unit one shard over each link
      EXPECT_EQ(rank.totals.passes, run.ranks[0].totals.passes);
      EXPECT_EQ(rank.totals.gathered_bytes, run.ranks[0].totals.gathered_bytes);
      EXPECT_EQ(rank.totals.copied_bytes * mode.replicas, rank.totals.gathered_bytes);
    }
  }
}

TEST(RankedRuns, ALoneRequestIsGatheredForByIdleReplicas) {
  const RankedRun run = run_on_ranks(tiny_ranks(3, streamed(2, 0), 2), {ragged_requests()[0]});
  expect_same(run.outcomes[0], lone_results()[0]);
  for (const RankReport& rank : run.ranks) EXPECT_EQ(rank.totals.passes, run.ranks[0].totals.passes);
}

TEST(RankedRuns, WithoutStreamingEachReplicaHasItsWeights) {
  expect_all_same(run_on_ranks(tiny_ranks(2, {}, 0), ragged_requests()));
}

TEST(RankedRuns, HoldOneCopyOfTheWeightsTogether) {
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  std::size_t shard = 0;
  for (const ModelPart& part : pipeline->parts()) shard += GatheredSource::shard_bytes(part.plan, {4, 2});
  const RankedRun run = run_on_ranks(tiny_ranks(4, streamed(2, 0), 2), {ragged_requests()[4]});
  for (const RankReport& rank : run.ranks) EXPECT_EQ(rank.totals.host_bytes, shard);
}

/// Of all parts at once, beside the ring and the rest of whichever is active.
struct HsdpMemory {
  std::size_t shards = 0;
  std::size_t largest_active = 0;
};

HsdpMemory hsdp_memory(const Sharding& sharding) {
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  HsdpMemory memory;
  for (const ModelPart& part : pipeline->parts()) {
    memory.shards += GatheredSource::shard_bytes(part.plan, sharding);
    const PartMemory whole = plan_memory(part.plan, {true, 2, 0, ResidentPolicy::leading, sharding});
    memory.largest_active = std::max(memory.largest_active, whole.total_bytes());
  }
  return memory;
}

RankedSetup hsdp(std::size_t ranks, std::optional<std::size_t> device_limit = std::nullopt,
                 const std::shared_ptr<HostMemoryBudget>& host = nullptr) {
  RankedSetup setup = tiny_ranks(ranks, {}, 2, [=](std::size_t) {
    return CpuDeviceOptions{.memory_limit_bytes = device_limit, .host_memory = host};
  });
  shard_on_devices(setup);
  return setup;
}

TEST(Hsdp, LeavesNoWeightOnTheHost) {
  const auto budget = std::make_shared<HostMemoryBudget>(std::nullopt, "/no/such/root");
  const RankedRun run = run_on_ranks(hsdp(2, std::nullopt, budget), {ragged_requests()[4]});
  expect_same(run.outcomes[0], lone_results()[4]);
  for (const RankReport& rank : run.ranks) EXPECT_EQ(rank.totals.host_bytes, 0U);
  for (const MemoryPart& part : budget->use().parts) EXPECT_NE(part.name, "weights");
}

/// Shards of parts that are not active take room as well, and that is known before a weight is read.
TEST(Hsdp, IsRefusedWhereShardsAndTheRingDoNotFit) {
  const HsdpMemory memory = hsdp_memory({2, 2});
  const RankedRun run = run_on_ranks(hsdp(2, memory.shards + memory.largest_active - 1), {ragged_requests()[4]});
  ASSERT_TRUE(run.ranks[0].fault);
  EXPECT_EQ(run.ranks[0].fault->failure.code, ErrorCode::out_of_device_memory);
  EXPECT_THAT(run.ranks[0].fault->failure.message,
              ::testing::AllOf(::testing::HasSubstr("shards"), ::testing::HasSubstr("transformer"),
                               ::testing::HasSubstr(format_size(memory.shards + memory.largest_active))));
}

TEST(Hsdp, ARequestIsRefusedForTheShardsOfAllPartsTogether) {
  const HsdpMemory memory = hsdp_memory({2, 2});
  const RankedRun run = run_on_ranks(hsdp(2, memory.shards + memory.largest_active), {ragged_requests()[4]});
  ASSERT_FALSE(run.ranks[0].fault) << run.ranks[0].fault->failure.message;
  ASSERT_TRUE(run.outcomes[0].failure);
  EXPECT_EQ(run.outcomes[0].failure->code, ErrorCode::out_of_device_memory);
  EXPECT_THAT(run.outcomes[0].failure->message, ::testing::HasSubstr("(shards "));
}

TEST(RankedRuns, DelaysOnAnyRankChangeNoByte) {
  for (const std::string_view slow : {"copy", "compute", "weight gather"}) {
    const auto device = [&](std::size_t rank) {
      const auto random = std::make_shared<std::mt19937>(rank);
      return CpuDeviceOptions{.faults = {.delay = [=](std::string_view stream, std::string_view) {
                                return std::chrono::microseconds(stream == slow && rank == 1 ? (*random)() % 500 : 0);
                              }}};
    };
    expect_all_same(run_on_ranks(tiny_ranks(3, streamed(2, 0), 2, device), ragged_requests()));
  }
}

TEST(RankedRuns, StrictWavesTakeEqualStepCounts) {
  std::vector<GenerateRequest> requests(3, small_request());
  requests[1].num_inference_steps = 3;
  requests.push_back(small_request());
  requests[3].num_inference_steps.reset();
  RankedSetup setup = tiny_ranks(2, streamed(2, 0), 1);
  setup.wave_policy = WavePolicy::strict;
  const RankedRun run = run_on_ranks(setup, requests);
  expect_same(run.outcomes[0], lone_results()[0]);
  expect_same(run.outcomes[2], lone_results()[0]);
  ASSERT_TRUE(run.outcomes[1].failure);
  EXPECT_EQ(run.outcomes[1].failure->code, ErrorCode::incompatible);
  ASSERT_TRUE(run.outcomes[3].failure);
  EXPECT_EQ(run.outcomes[3].failure->code, ErrorCode::invalid_argument);
}

TEST(RankedRuns, ABadRequestIsRefusedAndTheOthersAreServed) {
  std::vector<GenerateRequest> requests = ragged_requests();
  requests[2].height = 33;
  const RankedRun run = run_on_ranks(tiny_ranks(2, streamed(2, 0), 1), requests);
  ASSERT_TRUE(run.outcomes[2].failure);
  EXPECT_EQ(run.outcomes[2].failure->code, ErrorCode::invalid_argument);
  EXPECT_THAT(run.outcomes[2].failure->message, ::testing::HasSubstr("33"));
  EXPECT_FALSE(run.outcomes[2].result);
  for (const std::size_t i : {0, 1, 3, 4}) expect_same(run.outcomes[i], lone_results()[i]);
}

/// With room for one sample beside the weights, those to follow wait until it is gone.
TEST(RankedRuns, SamplesWaitForMemory) {
  std::size_t peak = 0;
  {
    const auto generator = make_generator(tiny_shapes(), streamed(2, 0));
    for (const GenerateRequest& request : ragged_requests()) {
      generator->generate(request);
      for (const StageReport& stage : generator->stage_reports()) peak = std::max(peak, stage.need.total_bytes());
    }
  }
  const auto device = [&](std::size_t) { return CpuDeviceOptions{.memory_limit_bytes = peak + peak / 8}; };
  RankedSetup setup = tiny_ranks(2, streamed(2, 0), 1, device);
  setup.samples_per_replica = 2;
  expect_all_same(run_on_ranks(setup, ragged_requests()));
}

TEST(RankedRuns, ReportBytesOfEachRankAndWhatCouplingCosts) {
  const RankedRun run = run_on_ranks(tiny_ranks(2, streamed(2, 0), 1), ragged_requests());
  const nlohmann::json report = nlohmann::json::parse(report_json(run));
  ASSERT_EQ(report["ranks"].size(), 2U);
  EXPECT_EQ(report["ranks"][1]["gathered_bytes"], run.ranks[1].totals.gathered_bytes);
  EXPECT_EQ(report["ranks"][1]["copied_bytes"], run.ranks[1].totals.copied_bytes);
  ASSERT_EQ(report["coupling"].size(), 1U);
  EXPECT_EQ(report["coupling"][0]["passes"], run.ranks[0].totals.passes);
  EXPECT_GE(report["coupling"][0]["loss"].get<double>(), 0);
  EXPECT_GT(report["ranks"][0]["device_peak_bytes"], 0);
  ASSERT_EQ(report["requests"].size(), run.outcomes.size());
  EXPECT_EQ(report["requests"][1]["rank"], run.outcomes[1].rank);
}

/// Names of files may hold any bytes.
TEST(RankedRuns, FailuresMayQuoteWhatIsNoUtf8) {
  RankedRun run;
  run.ranks.resize(1);
  run.outcomes.resize(1);
  run.outcomes[0].failure = Failure{ErrorCode::not_found, "no file '\xff'"};
  const RankedRun all = gather_run(*connect_threads(1, std::nullopt), run);
  ASSERT_TRUE(all.outcomes[0].failure);
  EXPECT_EQ(all.outcomes[0].failure->message, "no file '\xEF\xBF\xBD'");
  EXPECT_EQ(nlohmann::json::parse(report_json(run))["requests"][0]["message"], "no file '\xEF\xBF\xBD'");
}

}  // namespace
}  // namespace lamina::test
