// Replicas on GPUs of their own: whatever they share, each request ends as it does alone.

#include <gtest/gtest.h>

#include "comm/rank_connector.h"
#include "device/cuda/cuda_device.h"
#include "engine/engine_fixture.h"
#include "engine/ranks/ranked_run.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

std::unique_ptr<Pipeline> open_demo() {
  return open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = true, .activations = DType::bf16});
}

std::vector<GenerateRequest> two_requests() {
  std::vector<GenerateRequest> requests(2, small_request());
  requests[1].seed = 6;
  requests[1].num_inference_steps = 3;
  return requests;
}

struct GpuMode {
  const char* name;
  std::optional<GroupKind> weights;  ///< shard: HSDP, ranks that compute the same
  std::size_t chunks = 1;
  ShardPlace shards = ShardPlace::host;
};

void PrintTo(const GpuMode& mode, std::ostream* out) {
  *out << mode.name;
}

RankedSetup two_gpus(const GpuMode& mode) {
  RankedSetup setup;
  const bool is_hsdp = mode.weights == GroupKind::shard;
  setup.topology = Topology(is_hsdp ? ParallelSizes{.use_hsdp = true, .hsdp_shard = 2} : ParallelSizes{.data = 2});
  setup.connector = connect_gpus(2, 0);
  setup.create_device = [](std::size_t rank) { return create_cuda_device({.index = static_cast<int>(rank)}); };
  setup.open_pipeline = [](const ModelGroups&) { return open_demo(); };
  setup.offload = {.stream = mode.shards == ShardPlace::host, .poison_released = true};
  setup.weights = mode.weights;
  setup.chunks = mode.chunks;
  setup.shards = mode.shards;
  return setup;
}

class GpuRanked : public ::testing::TestWithParam<GpuMode> {
 protected:
  void SetUp() override {
    try {
      create_cuda_device({.index = 1});
    } catch (const Error& error) {
      GTEST_SKIP() << "two GPUs are needed: " << error.message();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(TwoGpus, GpuRanked,
                         ::testing::Values(GpuMode{"rank_local", std::nullopt},
                                           GpuMode{"gather_chunks1", GroupKind::offload},
                                           GpuMode{"gather_chunks2", GroupKind::offload, 2},
                                           GpuMode{"gather_chunks5", GroupKind::offload, 5},
                                           GpuMode{"hsdp_staged", GroupKind::shard, 2},
                                           GpuMode{"hsdp", GroupKind::shard, 2, ShardPlace::device}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(GpuRanked, RequestsEndAsTheyDoAlone) {
  const std::vector<GenerateRequest> requests = two_requests();
  const RankedRun run = run_on_ranks(two_gpus(GetParam()), requests);
  Generator alone(create_cuda_device({}), open_demo(), {});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    ASSERT_FALSE(run.outcomes[i].failure) << run.outcomes[i].failure->message;
    const GenerateResult expected = alone.generate(requests[i]);
    EXPECT_EQ(run.outcomes[i].result->picture.rgb, expected.picture.rgb);
    EXPECT_EQ(tensor_of(*run.outcomes[i].result, "latents").values, tensor_of(expected, "latents").values);
  }
  for (const RankReport& rank : run.ranks) EXPECT_EQ(rank.totals.gathered_bytes > 0, GetParam().weights.has_value());
}

TEST_F(GpuRanked, ARankThatFailsTakesItsGroupDownWithItsReason) {
  int passes = 0;
  const auto begin = std::chrono::steady_clock::now();
  const RankedRun run = run_on_ranks(two_gpus({"", GroupKind::offload}), two_requests(),
                                     {.passed =
                                          [&](const RankedProgress&) {
                                            if (++passes == 2) throw Error(ErrorCode::corrupt, "planted");
                                          },
                                      .is_cancelled = {}});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  for (const RankReport& rank : run.ranks) {
    ASSERT_TRUE(rank.fault.has_value());
    EXPECT_EQ(rank.fault->failure.message, "planted");
  }
}

}  // namespace
}  // namespace lamina::test
