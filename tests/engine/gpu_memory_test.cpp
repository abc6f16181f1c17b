#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "base/bytes.h"
#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "engine/engine_fixture.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::unique_ptr<Generator> make_demo(std::unique_ptr<Device> device, VaeTiling tiling, DType activations) {
  return std::make_unique<Generator>(
      std::move(device),
      open_pipeline(ModelFolder::open(tiny_shapes()),
                    {.text_encoder = false, .activations = activations, .vae_tiling = tiling}),
      OffloadOptions{.stream = true});
}

std::unique_ptr<Generator> make_demo(VaeTiling tiling) {
  return make_demo(create_cuda_device({}), tiling, DType::bf16);
}

GenerateRequest request(std::int64_t side) {
  GenerateRequest request;
  request.prompt_embeds_seed = 1;
  request.height = side;
  request.width = side;
  request.num_inference_steps = 1;
  request.guidance_scale = 1.0;
  request.keep_tensors = true;
  return request;
}

/// The demo model's decoder takes more than 1 GiB for it, whole.
constexpr std::int64_t kLargeSide = 2048;

std::size_t limit_of(Device& device) {
  return *device.memory().use().limit_bytes;
}

/// Another user of the GPU, who leaves so much to devices created later.
struct Other {
  explicit Other(std::size_t left_bytes) : memory(device->allocate(limit_of(*device) - left_bytes, "other")) {}

  std::unique_ptr<Device> device = create_cuda_device({});
  DeviceBuffer memory;
};

TEST(GpuMemory, APictureBeyondTheFreeMemoryIsRefusedBeforeItRunsOrTiled) {
  const Other other(700 * kMiB);
  const auto generator = make_demo(VaeTiling::off);
  try {
    generator->generate(request(kLargeSide));
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
    EXPECT_THAT(error.message(), HasSubstr("stage 'decode' needs"));
    EXPECT_THAT(error.message(), HasSubstr("the GPU's free memory"));
  }
  EXPECT_TRUE(generator->stage_reports().empty()) << "something ran";
  const GenerateResult tiled = make_demo(VaeTiling::automatic)->generate(request(kLargeSide));
  EXPECT_THAT(tiled.notes, Contains(HasSubstr("stage 'decode' streams its feature maps")));
}

TEST(GpuMemory, ARequestForWhichAnotherLeavesNothingFailsAloneAndTheEngineGoesOn) {
  const auto generator = make_demo(VaeTiling::off);
  generator->generate(request(256));  // has CUDA's libraries loaded
  {
    const Other other(0);
    try {
      generator->generate(request(kLargeSide));
      FAIL() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory) << error.what();
    }
  }
  EXPECT_NO_THROW(generator->generate(request(kLargeSide)));
}

/// Feature maps on the host: the bytes of those on the device, in both dtypes. 512 pixels are eight bands.
TEST(GpuMemory, MapsOnTheHostGiveTheSameBytes) {
  for (const DType activations : {DType::bf16, DType::f32}) {
    const auto generator = make_demo(create_cuda_device({}), VaeTiling::on, activations);
    const GenerateResult streamed = generator->generate(request(512));
    EXPECT_TRUE(stage_of(*generator, "decode").need.is_divided);
    const GenerateResult whole = make_demo(create_cuda_device({}), VaeTiling::off, activations)->generate(request(512));
    EXPECT_EQ(tensor_of(streamed, "image").values, tensor_of(whole, "image").values);
  }
}

/// What a run takes of the GPU beside its budget.
TEST(GpuMemory, LibrariesStayWithinTheirRoom) {
  const auto generator = make_demo(VaeTiling::off);
  const std::size_t before = limit_of(generator->device());
  generator->generate(request(512));
  const std::size_t booked = generator->device().memory().use().used_bytes;
  const std::size_t after = limit_of(*create_cuda_device({}));
  const std::size_t taken = before > after + booked ? before - after - booked : 0;
  std::printf("beside the budget: %s\n", format_size(taken).c_str());
  EXPECT_LE(taken, kCudaLibraryRoom);
}

}  // namespace
}  // namespace lamina::test
