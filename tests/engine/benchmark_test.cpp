#include "engine/bench/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "engine/engine_fixture.h"
#include "offload/unit_layout.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

EngineConfig demo_config() {
  EngineConfig config;
  config.model = tiny_shapes().string();
  config.device = "cpu";
  return config;
}

/// Bytes of the transformer's blocks, from its plan.
std::size_t block_bytes() {
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = false});
  std::size_t bytes = 0;
  for (const StreamUnit& unit : pipeline->parts().front().plan.stacks.front().units)
    bytes += UnitLayout::of(unit.groups).size_bytes;
  return bytes;
}

TEST(Benchmark, CountsAStepsBytesAndTimesEverySize) {
  const BenchmarkResult result = run_benchmark(demo_config(), {.sizes = {{32, 32}, {32, 64}}, .steps = 2});
  EXPECT_EQ(result.device, "cpu");
  EXPECT_EQ(result.dtype, "float32");
  EXPECT_EQ(result.resident_note, "");
  EXPECT_GT(result.link_bytes_per_second, 1e6);
  ASSERT_EQ(result.sizes.size(), 2U);
  EXPECT_EQ(result.sizes[0].tokens, 512 + 4);
  EXPECT_EQ(result.sizes[1].tokens, 512 + 8);
  for (const SizeMeasurement& size : result.sizes) {
    EXPECT_EQ(size.copied_bytes, block_bytes());
    ASSERT_EQ(size.units.size(), 16U);
    ASSERT_TRUE(size.resident_ms.has_value());
    EXPECT_GE(size.floor_ms(), *size.resident_ms);
    EXPECT_GE(size.floor_ms(), size.link_ms);
    EXPECT_GE(size.slowest_step_ms, size.step_ms);
    double compute_ms = 0;
    for (const UnitMeasurement& unit : size.units) {
      EXPECT_GT(unit.compute_ms, 0) << unit.name;
      EXPECT_GT(unit.copy_ms, 0) << unit.name;
      compute_ms += unit.resident_compute_ms;
    }
    // The model's step has all units' compute in it, and at most all copies behind one another as well.
    EXPECT_GE(size.predicted_ms, compute_ms * 0.999);
    EXPECT_LE(size.predicted_ms, (compute_ms + size.link_ms) * 1.001 + 1);
  }
}

TEST(Benchmark, WhatNoModelCouldRunIsRefusedAtOnce) {
  const BenchmarkRequest request{.sizes = {{32, 32}}};
  EXPECT_NO_THROW(check_benchmark(demo_config(), request));
  EngineConfig config = demo_config();
  config.dlo_slots = 0;
  EXPECT_THROW(check_benchmark(config, request), Error);
  config = demo_config();
  config.dtype = ActivationDType::bfloat16;
  EXPECT_THROW(check_benchmark(config, request), Error);
  config.dtype = ActivationDType::automatic;
  config.device = "cuda:1000";
  EXPECT_THROW(check_benchmark(config, request), Error);
  EXPECT_THROW(check_benchmark(demo_config(), {.sizes = {{32, 32}, {32, 17}}}), Error);
}

TEST(Benchmark, ASizeThatTheModelRefusesIsRefusedBeforeTheFirstIsMeasured) {
  bool measured = false;
  lamina::testing::expect_error(ErrorCode::invalid_argument, {"height 33"}, [&] {
    run_benchmark({.model = tiny_shapes().string(), .device = "cpu"}, {.sizes = {{32, 32}, {33, 32}}, .steps = 1},
                  [&](const Progress&) { measured = true; });
  });
  EXPECT_FALSE(measured);
}

TEST(Benchmark, ResidentBlocksAreNotCopied) {
  EngineConfig config = demo_config();
  config.dlo_resident_layers = 16;
  const BenchmarkResult result = run_benchmark(config, {.sizes = {{32, 32}}, .steps = 1, .resident = false});
  EXPECT_EQ(result.sizes.front().copied_bytes, 0U);
  EXPECT_EQ(result.resident_note, "not asked for");
  EXPECT_FALSE(result.sizes.front().resident_ms.has_value());
}

TEST(Benchmark, SaysWhyNothingIsResident) {
  EngineConfig config = demo_config();
  config.device_memory_bytes = 12 << 20;
  const BenchmarkResult result = run_benchmark(config, {.sizes = {{32, 32}}, .steps = 1});
  EXPECT_THAT(result.resident_note, HasSubstr("allowed"));
  EXPECT_GT(result.sizes.front().step_ms, 0);
  EXPECT_LE(result.sizes.front().device_memory.peak_bytes, *config.device_memory_bytes);
}

TEST(Benchmark, TracesEveryVisitOfEveryPass) {
  const BenchmarkResult result = run_benchmark(demo_config(), {.sizes = {{32, 32}}, .steps = 2, .resident = false});
  const Json trace = parse_json(result.sizes.front().trace_json, "trace");
  int computes = 0;
  int copies = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("name") == "stall") continue;
    EXPECT_GT(event.at("dur").get<double>(), 0);
    (event.at("tid") == 1 ? computes : copies) += 1;
  }
  const auto passes = BenchmarkRequest::kWarmUpSteps + 2;
  EXPECT_EQ(computes, 16 * passes);
  EXPECT_EQ(copies, 16 * passes);
}

TEST(Benchmark, JsonHasEveryUnit) {
  const BenchmarkResult result = run_benchmark(demo_config(), {.sizes = {{32, 32}}, .steps = 1, .resident = false});
  const Json json = benchmark_json(result);
  EXPECT_EQ(json.at("sizes").at(0).at("units").size(), 16U);
  EXPECT_TRUE(json.at("sizes").at(0).at("resident_ms").is_null());
}

}  // namespace
}  // namespace lamina::test
