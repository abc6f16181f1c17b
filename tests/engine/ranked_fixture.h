#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "engine/engine_fixture.h"
#include "engine/ranks/ranked_run.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {

/// Replicas of the demo model on CPU devices, rank-local where `chunks` is 0.
inline RankedSetup tiny_ranks(std::size_t replicas, const OffloadOptions& offload, std::size_t chunks,
                              const std::function<CpuDeviceOptions(std::size_t rank)>& device = {}) {
  return {
      .topology = Topology({.data = replicas}),
      .connector = connect_threads(replicas, std::chrono::minutes(10)),
      .create_device =
          [device](std::size_t rank) { return create_cpu_device(device ? device(rank) : CpuDeviceOptions{}); },
      .open_pipeline =
          [](const ModelGroups& groups) { return open_pipeline(ModelFolder::open(tiny_shapes()), {.groups = groups}); },
      .offload = offload,
      .weights = chunks > 0 ? std::optional(GroupKind::offload) : std::nullopt,
      .chunks = std::max<std::size_t>(chunks, 1)};
}

/// Small requests that differ in steps, size, guidance and seed.
inline std::vector<GenerateRequest> ragged_requests() {
  std::vector<GenerateRequest> requests(5, small_request());
  requests[1].num_inference_steps = 3;
  requests[1].prompt = "a red circle";
  requests[2].guidance_scale = 1.0;
  requests[2].seed = 7;
  requests[3].height = 64;
  requests[3].num_inference_steps = 1;
  requests[4].width = 32;
  requests[4].output_type = OutputType::latent;
  return requests;
}

/// The requests of `ragged_requests`, run one after the other on a device of their own with everything resident.
inline const std::vector<GenerateResult>& lone_results() {
  static const std::vector<GenerateResult> results = [] {
    const auto generator = make_generator(tiny_shapes(), {});
    std::vector<GenerateResult> all;
    for (const GenerateRequest& request : ragged_requests()) all.push_back(generator->generate(request));
    return all;
  }();
  return results;
}

inline void expect_same(const RankedOutcome& outcome, const GenerateResult& expected) {
  ASSERT_FALSE(outcome.failure) << outcome.failure->message;
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ(outcome.result->picture.rgb, expected.picture.rgb);
  EXPECT_EQ(outcome.result->settings, expected.settings);
  ASSERT_EQ(outcome.result->tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    EXPECT_EQ(outcome.result->tensors[i].name, expected.tensors[i].name);
    EXPECT_EQ(outcome.result->tensors[i].values, expected.tensors[i].values) << expected.tensors[i].name;
  }
}

}  // namespace lamina::test
