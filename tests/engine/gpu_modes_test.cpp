#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "engine/engine_fixture.h"
#include "offload/unit_layout.h"
#include "pipelines/registry.h"
#include "pipelines/synthesis.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

/// A transformer of klein 4B's sizes with random weights, for all tests of this program. LAMINA_GPU_TEST_FOLDER says
/// where its 8 GB go; LAMINA_GPU_TEST_SIZE names another size.
const std::filesystem::path& synthetic_model() {
  static const std::filesystem::path model = [] {
    const char* folder = std::getenv("LAMINA_GPU_TEST_FOLDER");
    const char* size = std::getenv("LAMINA_GPU_TEST_SIZE");
    const std::filesystem::path path =
        (folder != nullptr ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) /
        ("lamina-gpu-test-" + std::to_string(::getpid()));
    const SynthesisRequest request{
        .family = "flux2", .size = size != nullptr ? size : "klein-4b", .components = {"transformer"}};
    write_synthetic_model(plan_synthesis(request), request, path);
    return path;
  }();
  return model;
}

class RemoveSyntheticModel : public ::testing::Environment {
 public:
  void TearDown() override {
    std::error_code ignored;
    if (used) std::filesystem::remove_all(synthetic_model(), ignored);
  }
  static inline bool used = false;
};

const auto* const environment = ::testing::AddGlobalTestEnvironment(new RemoveSyntheticModel);

struct Mode {
  const char* name;
  OffloadOptions options;
  bool delayed = false;
};

void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

OffloadOptions streamed(std::size_t slots, std::size_t residents = 0, ResidentPolicy policy = ResidentPolicy::leading) {
  return {.stream = true,
          .ring_slots = slots,
          .resident_blocks = residents,
          .resident_policy = policy,
          .host_backing = HostBackingChoice::private_pages};
}

CudaDeviceOptions device_options(bool delayed) {
  CudaDeviceOptions options;
  if (!delayed) return options;
  options.delay = [random = std::make_shared<std::mt19937>(3)](std::string_view, std::string_view) {
    return std::chrono::microseconds((*random)() % 3000);
  };
  return options;
}

std::unique_ptr<Generator> make_gpu_generator(const OffloadOptions& options, bool delayed = false) {
  RemoveSyntheticModel::used = true;
  return std::make_unique<Generator>(
      create_cuda_device(device_options(delayed)),
      open_pipeline(ModelFolder::open(synthetic_model()), {.text_encoder = false, .activations = DType::bf16}),
      options);
}

GenerateRequest request() {
  GenerateRequest request;
  request.prompt_embeds_seed = 4;
  request.height = 512;
  request.width = 512;
  request.num_inference_steps = 4;
  request.seed = 9;
  request.output_type = OutputType::latent;
  return request;
}

std::vector<float> last_latents(Generator& generator) {
  return tensor_of(generator.generate(request()), "latents").values;
}

const std::vector<float>& resident_latents() {
  static const std::vector<float> latents = last_latents(*make_gpu_generator({}));
  return latents;
}

/// The step stack's streamed bytes of one pass, from the plan alone.
std::size_t streamed_bytes(const StageReport& stage) {
  const auto pipeline = open_pipeline(ModelFolder::open(synthetic_model()), {.text_encoder = false});
  const Stack& stack = pipeline->parts()[stage.part].plan.stacks[stage.stack];
  std::size_t bytes = 0;
  for (std::size_t unit = 0; unit < stack.units.size(); ++unit)
    if (!stage.need.part.resident[stage.stack][unit]) bytes += UnitLayout::of(stack.units[unit].groups).size_bytes;
  return bytes;
}

class GpuModes : public ::testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(KleinSized, GpuModes,
                         ::testing::Values(Mode{"slots2", streamed(2)}, Mode{"slots3", streamed(3)},
                                           Mode{"leading4", streamed(2, 4)},
                                           Mode{"spread4", streamed(2, 4, ResidentPolicy::spread)},
                                           Mode{"delayed", streamed(2), true}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(GpuModes, LastLatentsAreTheResidentOnesByteForByte) {
  const auto generator = make_gpu_generator(GetParam().options, GetParam().delayed);
  EXPECT_EQ(last_latents(*generator), resident_latents());
  const StageReport& stage = generator->stage_reports().front();
  EXPECT_EQ(stage.statistics.copied_bytes, stage.passes * streamed_bytes(stage));
  EXPECT_EQ(stage.statistics.demand_fetches + stage.statistics.discarded_fetches, 0U);
  EXPECT_EQ(stage.memory.peak_bytes, stage.need.total_bytes());
}

TEST(GpuModesKleinSized, TwentyRunsOfOneProcessAreEqual) {
  const auto generator = make_gpu_generator(streamed(2));
  for (int run = 0; run < 20; ++run) {
    ASSERT_EQ(last_latents(*generator), resident_latents()) << "run " << run;
    const StageReport& stage = generator->stage_reports().front();
    ASSERT_EQ(stage.statistics.copied_bytes, stage.passes * streamed_bytes(stage));
  }
}

TEST(GpuModesKleinSized, AnotherEngineMakesTheSameLatents) {
  ASSERT_EQ(last_latents(*make_gpu_generator({})), resident_latents());
  for (const float value : resident_latents()) ASSERT_TRUE(std::isfinite(value));
}

TEST(GpuErrors, ARequestThatRunsOutOfMemoryFailsAloneAndTheEngineGoesOn) {
  CudaDeviceOptions options;
  options.memory_limit_bytes = 64 * kMiB;
  Generator generator(
      create_cuda_device(options),
      open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = true, .activations = DType::bf16}),
      {.stream = true});
  GenerateRequest large = small_request();
  large.height = 2048;
  large.width = 2048;
  EXPECT_THROW(generator.generate(large), Error);
  EXPECT_NO_THROW(generator.generate(small_request()));
}

}  // namespace
}  // namespace lamina::test
