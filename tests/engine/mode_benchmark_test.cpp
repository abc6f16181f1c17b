// Ways to run on several ranks beside each other: what the columns count, and what becomes of modes that cannot run.

#include "engine/bench/mode_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "engine/engine_fixture.h"
#include "offload/unit_layout.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EngineConfig demo_ranks(std::size_t ranks) {
  EngineConfig config;
  config.model = tiny_shapes().string();
  config.device = "cpu";
  config.dlo_host_backing = HostBackingChoice::private_pages;
  config.parallel.sizes.data = ranks;
  return config;
}

ModeBenchmarkRequest small_benchmark(std::vector<std::string> modes) {
  return {.modes = std::move(modes), .sizes = {{32, 32}}, .steps = 1};
}

const OffloadPlan& transformer_plan() {
  static const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = false});
  return pipeline->parts().front().plan;
}

/// Bytes of the transformer's blocks, from its plan.
std::size_t block_bytes() {
  std::size_t bytes = 0;
  for (const StreamUnit& unit : transformer_plan().stacks.front().units)
    bytes += UnitLayout::of(unit.groups).size_bytes;
  return bytes;
}

std::vector<std::string> modes_of(const ModeBenchmark& benchmark) {
  std::vector<std::string> modes;
  for (const ModeMeasurement& row : benchmark.rows) modes.push_back(row.mode);
  return modes;
}

std::vector<std::size_t> requests_of(const ModeBenchmark& benchmark) {
  std::vector<std::size_t> requests;
  for (const ModeMeasurement& row : benchmark.rows) requests.push_back(row.requests);
  return requests;
}

TEST(ModeBenchmark, CountsBytesOfReplicasThatGatherAndThatDoNot) {
  std::vector<std::string> told;
  const ModeBenchmark benchmark =
      run_mode_benchmark(demo_ranks(2), small_benchmark({"idle", "gather", "resident", "local"}),
                         [&](const ModeMeasurement& row) { told.push_back(row.mode); });
  EXPECT_THAT(modes_of(benchmark), ElementsAre("resident", "local", "gather", "idle"));
  EXPECT_EQ(told, modes_of(benchmark));
  EXPECT_THAT(requests_of(benchmark), ElementsAre(2, 2, 2, 1));
  ASSERT_EQ(benchmark.link_bytes_per_second.size(), 2U);
  const double slowest = std::min(benchmark.link_bytes_per_second[0], benchmark.link_bytes_per_second[1]);
  for (const ModeMeasurement& row : benchmark.rows) {
    EXPECT_EQ(row.steps, 1U);
    EXPECT_GT(row.step_ms, 0);
    EXPECT_GE(row.slowest_step_ms, row.step_ms);
    EXPECT_EQ(row.compute_ms, benchmark.rows[0].step_ms);
    EXPECT_DOUBLE_EQ(row.link_ms, 1e3 * static_cast<double>(row.copied_bytes) / slowest);
    EXPECT_DOUBLE_EQ(row.floor_ms(), std::max(*row.compute_ms, row.link_ms));
    EXPECT_GT(row.device_peak_bytes, 0U);
  }
  const ModeMeasurement& local = benchmark.rows[1];
  EXPECT_EQ(benchmark.rows[0].copied_bytes, 0U);
  EXPECT_EQ(local.copied_bytes, block_bytes());
  EXPECT_EQ(local.gathered_bytes, 0U);
  for (const ModeMeasurement* row : {&benchmark.rows[2], &benchmark.rows[3]}) {
    EXPECT_EQ(row->copied_bytes * 2, row->gathered_bytes);
    EXPECT_GE(row->gathered_bytes, block_bytes());
    // One copy in all, besides padding; the VAE's half that a picture would need is tiny.
    EXPECT_GE(row->host_bytes, weight_bytes(transformer_plan()));
    EXPECT_LT(row->host_bytes, weight_bytes(transformer_plan()) * 3 / 2);
  }
  ASSERT_EQ(benchmark.notes.size(), 1U);
  EXPECT_THAT(benchmark.notes[0], HasSubstr("beside idle replicas"));
}

TEST(ModeBenchmark, CoBatchedRequestsShareEachTransfer) {
  const ModeBenchmark benchmark = run_mode_benchmark(demo_ranks(1), small_benchmark({"resident", "cobatch"}));
  EXPECT_THAT(modes_of(benchmark), ElementsAre("resident", "cobatch-1", "cobatch-2", "cobatch-4", "cobatch-8"));
  EXPECT_THAT(requests_of(benchmark), ElementsAre(1, 1, 2, 4, 8));
  std::size_t peak = 0;
  for (std::size_t i = 1; i < benchmark.rows.size(); ++i) {
    const ModeMeasurement& row = benchmark.rows[i];
    EXPECT_EQ(row.steps, 1U) << "they did not share all passes";
    EXPECT_EQ(row.copied_bytes, block_bytes());
    EXPECT_DOUBLE_EQ(*row.compute_ms, benchmark.rows[0].step_ms * static_cast<double>(row.requests));
    EXPECT_DOUBLE_EQ(row.throughput(), static_cast<double>(row.requests) * 1e3 / row.step_ms);
    EXPECT_GT(row.device_peak_bytes, peak);
    peak = row.device_peak_bytes;
  }
}

TEST(ModeBenchmark, ATimeLimitEndsASizeButLeavesTheNext) {
  ModeBenchmarkRequest request = small_benchmark({"gather"});
  request.sizes = {{32, 32}, {32, 48}};
  request.steps = 400;
  request.time_limit = 1e-9;
  const ModeBenchmark benchmark = run_mode_benchmark(demo_ranks(2), request);
  ASSERT_EQ(benchmark.rows.size(), 2U);
  for (const ModeMeasurement& row : benchmark.rows) {
    EXPECT_GE(row.steps, std::size_t{ModeBenchmarkRequest::kLeastSteps});
    EXPECT_LT(row.steps, 20U);
    EXPECT_FALSE(row.compute_ms);
  }
}

TEST(ModeBenchmark, AModeThatDoesNotFitBecomesANote) {
  EngineConfig config = demo_ranks(1);
  config.device_memory_bytes = 12 << 20;
  const ModeBenchmark benchmark = run_mode_benchmark(config, small_benchmark({"resident", "local"}));
  EXPECT_THAT(modes_of(benchmark), ElementsAre("local"));
  ASSERT_EQ(benchmark.notes.size(), 1U);
  EXPECT_THAT(benchmark.notes[0], HasSubstr("resident: not measured: "));
  EXPECT_FALSE(benchmark.failed);
  const Json row = mode_benchmark_json(benchmark).at("rows").at(0);
  EXPECT_TRUE(row.at("compute_ms").is_null());
  EXPECT_EQ(row.at("floor_ms"), row.at("link_ms"));
  EXPECT_EQ(row.at("copied_bytes").get<std::size_t>(), block_bytes());
}

TEST(ModeBenchmark, MeasuresWhatTheFlagsSay) {
  EngineConfig config = demo_ranks(1);
  config.enable_distributed_layerwise_offload = true;
  config.parallel.max_concurrent_requests_per_replica = 3;
  const ModeBenchmark benchmark = run_mode_benchmark(config, small_benchmark({"given"}));
  EXPECT_THAT(modes_of(benchmark), ElementsAre("given"));
  EXPECT_THAT(requests_of(benchmark), ElementsAre(3));
}

TEST(ModeBenchmark, EndsWhereItIsStopped) {
  ModeBenchmarkRequest request = small_benchmark({"gather"});
  request.steps = 900;
  expect_error(ErrorCode::cancelled, {"stopped"},
               [&] { run_mode_benchmark(demo_ranks(2), request, {}, [] { return true; }); });
}

TEST(ModeBenchmark, RefusesUnknownModesAndThoseOfSeveralRanks) {
  expect_error(ErrorCode::invalid_argument, {"--modes fast", "hsdp-host"}, [] {
    check_modes(demo_ranks(2), small_benchmark({"local", "fast"}));
  });
  expect_error(ErrorCode::invalid_argument, {"--modes gather", "--data-parallel-size"},
               [] { check_modes(demo_ranks(1), small_benchmark({"gather"})); });
  EXPECT_NO_THROW(check_modes(demo_ranks(1), small_benchmark({"resident", "local", "cobatch"})));
  EXPECT_NO_THROW(check_modes(demo_ranks(2), small_benchmark(bench_mode_names())));
}

}  // namespace
}  // namespace lamina::test
