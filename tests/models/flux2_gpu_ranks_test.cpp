// A denoising step that two GPUs compute together.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "comm/nccl/nccl_communicator.h"
#include "device/cuda/cuda_device.h"
#include "models/flux2_ranks.h"

namespace lamina::test {
namespace {

RankBackend gpus(DType activations) {
  return {.create_device = [](std::size_t rank) { return create_cuda_device({.index = static_cast<int>(rank)}); },
          .connect =
              [](const std::string& name, const std::vector<std::size_t>& ranks) {
                return create_nccl_group(name, std::vector<int>(ranks.begin(), ranks.end()));
              },
          .activations = activations};
}

/// How the two GPUs divide the step, and what may differ from the recorded velocity: the largest difference of float32,
/// the relative norm of bfloat16, as for one GPU.
struct Mode {
  const char* name;
  ParallelSizes sizes;
  DType activations;
  double tolerance;
};

void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

class GpuRanks : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    try {
      create_cuda_device({.index = 1});
    } catch (const Error& error) {
      GTEST_SKIP() << "two GPUs are needed: " << error.message();
    }
  }

  static void expect_recorded(const std::vector<float>& found, const std::string& name) {
    const Checkpoint fixtures = Checkpoint::open_file(fixtures_dir() + "/micro.safetensors");
    const std::vector<float> expected = read_floats(fixtures, name);
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double distance = double{found[i]} - double{expected[i]};
      ASSERT_FALSE(std::isnan(distance)) << i;
      largest = std::max(largest, std::abs(distance));
      difference += distance * distance;
      norm += double{expected[i]} * double{expected[i]};
    }
    const double error = GetParam().activations == DType::f32 ? largest : std::sqrt(difference / norm);
    EXPECT_LE(error, GetParam().tolerance) << name;
  }

  /// 547 tokens with the odd picture, 536 otherwise.
  static void expect_velocity(const std::string& name) {
    const Checkpoint fixtures = Checkpoint::open_file(fixtures_dir() + "/micro.safetensors");
    const Step step = first_step(fixtures, name, {read_floats(fixtures, name + ".prompt_embeds")});
    const auto velocities = velocities_of_ranks(
        gpus(GetParam().activations), GetParam().sizes,
        [](const TensorParallel& part) { return Model::fixture("micro", part); }, step);
    expect_recorded(velocities[0], name + ".step0.velocity_cond");
  }
};

INSTANTIATE_TEST_SUITE_P(TwoGpus, GpuRanks,
                         testing::Values(Mode{"tensor2_float32", {.tensor = 2}, DType::f32, 1e-3},
                                         Mode{"tensor2_bfloat16", {.tensor = 2}, DType::bf16, 2e-2},
                                         Mode{"sequence2_float32", {.sequence = 2}, DType::f32, 1e-3},
                                         Mode{"sequence2_bfloat16", {.sequence = 2}, DType::bf16, 2e-2}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(GpuRanks, FindTheRecordedVelocity) {
  expect_velocity("micro");
}

TEST_P(GpuRanks, FindItOfTokensThatDoNotDivide) {
  expect_velocity("micro_odd");
}

}  // namespace
}  // namespace lamina::test
