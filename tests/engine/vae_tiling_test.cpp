#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "lamina/engine.h"
#include "pipelines/pictures/image.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// A picture of eight bands.
GenerateRequest large_request() {
  GenerateRequest request = small_request();
  request.prompt.clear();
  request.prompt_embeds_seed = 1;
  request.guidance_scale = 1.0;
  request.height = 384;
  request.width = 512;
  request.num_inference_steps = 1;
  return request;
}

std::unique_ptr<Generator> make_tiling_generator(VaeTiling tiling, std::optional<std::size_t> limit_bytes = {}) {
  return std::make_unique<Generator>(
      create_cpu_device({.memory_limit_bytes = limit_bytes}),
      open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = true, .vae_tiling = tiling}),
      OffloadOptions{.stream = true, .ring_slots = 1});
}

/// A run that has room for everything.
struct Free {
  GenerateResult result;
  std::size_t decode_bytes;
  std::size_t other_bytes;  ///< of the largest other stage
};

Free run_freely(VaeTiling tiling) {
  const auto generator = make_tiling_generator(tiling);
  Free free{generator->generate(large_request()), 0, 0};
  for (const StageReport& stage : generator->stage_reports()) {
    std::size_t& bytes = stage.need.stage == "decode" ? free.decode_bytes : free.other_bytes;
    bytes = std::max(bytes, stage.need.total_bytes());
  }
  return free;
}

const Free& whole() {
  static const Free run = run_freely(VaeTiling::off);
  return run;
}

const Free& tiled() {
  static const Free run = run_freely(VaeTiling::on);
  return run;
}

const std::vector<float>& image_of(const GenerateResult& result) {
  return tensor_of(result, "image").values;
}

TEST(VaeTiling, TakesLessDeviceMemoryForTheSameBytes) {
  EXPECT_LT(3 * tiled().decode_bytes, 2 * whole().decode_bytes);
  EXPECT_EQ(image_of(tiled().result), image_of(whole().result));
  EXPECT_EQ(tiled().result.settings, whole().result.settings);
}

TEST(VaeTiling, IsDoneWhereThePictureDoesNotFitOtherwise) {
  const std::size_t limit = whole().decode_bytes - 1;
  const auto generator = make_tiling_generator(VaeTiling::automatic, limit);
  const GenerateResult result = generator->generate(large_request());
  EXPECT_EQ(image_of(result), image_of(whole().result));
  EXPECT_TRUE(stage_of(*generator, "decode").need.is_divided);
  EXPECT_LE(stage_of(*generator, "decode").memory.peak_bytes, limit);
  EXPECT_THAT(result.notes, Contains(HasSubstr("stage 'decode' streams its feature maps from host memory, since it")));
  const Json report = parse_json(result.report_json, "report");
  EXPECT_EQ(report.at("stages").back().at("maps"), "host");
  EXPECT_EQ(report.at("stages").front().at("maps"), "device");
}

TEST(VaeTiling, IsLeftAloneWhereEverythingFits) {
  const std::size_t limit = whole().decode_bytes;
  ASSERT_LE(whole().other_bytes, limit);
  const auto generator = make_tiling_generator(VaeTiling::automatic, limit);
  const GenerateResult result = generator->generate(large_request());
  EXPECT_EQ(image_of(result), image_of(whole().result));
  EXPECT_FALSE(stage_of(*generator, "decode").need.is_divided);
  EXPECT_TRUE(result.notes.empty());
}

std::string refusal(VaeTiling tiling, std::size_t limit_bytes) {
  try {
    make_tiling_generator(tiling, limit_bytes)->generate(large_request());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
    return error.message();
  }
  return "was accepted";
}

TEST(VaeTiling, IsRefusedWhereBandsDoNotFitEither) {
  EXPECT_THAT(refusal(VaeTiling::off, whole().decode_bytes - 1), HasSubstr("stage 'decode' needs"));
  ASSERT_LT(whole().other_bytes, tiled().decode_bytes);
  EXPECT_THAT(refusal(VaeTiling::automatic, tiled().decode_bytes - 1), HasSubstr("stage 'decode' in bands needs"));
}

TEST(VaeTiling, ServesReferencesToo) {
  const ScratchFolder scratch;
  RgbImage image{64, 320, {}};
  for (int i = 0; i < 64 * 320; ++i)
    for (const int value : {i % 256, i / 320 * 3, 60}) image.pixels.push_back(static_cast<std::uint8_t>(value));
  const std::string file = (scratch.path() / "reference.png").string();
  write_png(AtomicFile(file), image, {});
  GenerateRequest request = small_request();
  request.images = {file};
  const auto run = [&](VaeTiling tiling) {
    const auto generator = make_tiling_generator(tiling);
    GenerateResult result = generator->generate(request);
    EXPECT_EQ(stage_of(*generator, "encode reference").need.is_divided, tiling == VaeTiling::on);
    return result;
  };
  EXPECT_EQ(image_of(run(VaeTiling::on)), image_of(run(VaeTiling::off)));
}

}  // namespace
}  // namespace lamina::test
