#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "lamina/engine.h"
#include "pipelines/image.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// A picture of 2 x 3 tiles: the demo model's VAE was made for 128 pixels.
GenerateRequest large_request() {
  GenerateRequest request = small_request();
  request.prompt.clear();
  request.prompt_embeds_seed = 1;
  request.guidance_scale = 1.0;
  request.height = 208;
  request.width = 256;
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

TEST(VaeTiles, TakeLessMemoryAndChangeThePictureSlightly) {
  EXPECT_LT(2 * tiled().decode_bytes, whole().decode_bytes);
  EXPECT_EQ(tensor_of(tiled().result, "latents").values, tensor_of(whole().result, "latents").values);
  EXPECT_NE(image_of(tiled().result), image_of(whole().result));
  EXPECT_LE(mean_difference(image_of(tiled().result), image_of(whole().result)), 10.0 / 255);
}

TEST(VaeTiles, AreTakenWhereTheWholePictureDoesNotFit) {
  const std::size_t limit = whole().decode_bytes - 1;
  const auto generator = make_tiling_generator(VaeTiling::automatic, limit);
  const GenerateResult result = generator->generate(large_request());
  EXPECT_EQ(image_of(result), image_of(tiled().result));
  EXPECT_EQ(stage_of(*generator, "decode").need.tiles, 6U);
  EXPECT_LE(stage_of(*generator, "decode").memory.peak_bytes, limit);
  EXPECT_THAT(result.notes, Contains(HasSubstr("stage 'decode' works in 6 tiles, since it needs")));
  EXPECT_THAT(result.settings, Contains(std::pair<std::string, std::string>("vae_tiling", "decode")));
  const Json report = parse_json(result.report_json, "report");
  EXPECT_EQ(report.at("stages").back().at("tiles"), 6);
  EXPECT_EQ(report.at("stages").front().at("tiles"), 1);
}

TEST(VaeTiles, AreLeftAloneWhereEverythingFits) {
  const std::size_t limit = whole().decode_bytes;
  ASSERT_LE(whole().other_bytes, limit);
  const auto generator = make_tiling_generator(VaeTiling::automatic, limit);
  const GenerateResult result = generator->generate(large_request());
  EXPECT_EQ(image_of(result), image_of(whole().result));
  EXPECT_EQ(stage_of(*generator, "decode").need.tiles, 1U);
  for (const auto& [key, value] : result.settings) EXPECT_NE(key, "vae_tiling");
}

TEST(VaeTiles, OfASmallPictureAreThePicture) {
  const auto generator = make_tiling_generator(VaeTiling::on);
  const GenerateResult result = generator->generate(small_request());
  EXPECT_EQ(stage_of(*generator, "decode").need.tiles, 1U);
  EXPECT_EQ(image_of(result), image_of(make_tiling_generator(VaeTiling::off)->generate(small_request())));
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

TEST(VaeTiles, AreRefusedWhereTheyDoNotFitEither) {
  EXPECT_THAT(refusal(VaeTiling::off, whole().decode_bytes - 1), HasSubstr("stage 'decode' needs"));
  ASSERT_LT(whole().other_bytes, tiled().decode_bytes);
  EXPECT_THAT(refusal(VaeTiling::automatic, tiled().decode_bytes - 1), HasSubstr("stage 'decode' in 6 tiles needs"));
}

/// A reference picture of one row of three tiles.
TEST(VaeTiles, EncodeReferencesToo) {
  const ScratchFolder scratch;
  RgbImage image{64, 320, {}};
  for (int i = 0; i < 64 * 320; ++i) {
    const bool in_square = i / 320 / 32 == 1 && i % 320 / 64 == 2;
    for (const int value : {in_square ? 200 : 255, in_square ? 40 : 255, in_square ? 60 : 255})
      image.pixels.push_back(static_cast<std::uint8_t>(value));
  }
  const std::string file = (scratch.path() / "reference.png").string();
  write_png(AtomicFile(file), image, {});
  GenerateRequest request = small_request();
  request.images = {file};
  const auto run = [&](VaeTiling tiling, std::size_t tiles) {
    const auto generator = make_tiling_generator(tiling);
    GenerateResult result = generator->generate(request);
    EXPECT_EQ(stage_of(*generator, "encode reference").need.tiles, tiles);
    return result;
  };
  const GenerateResult divided = run(VaeTiling::on, 3);
  EXPECT_THAT(divided.settings, Contains(std::pair<std::string, std::string>("vae_tiling", "encode reference")));
  const GenerateResult undivided = run(VaeTiling::off, 1);
  EXPECT_NE(image_of(divided), image_of(undivided));
  EXPECT_LE(mean_difference(image_of(divided), image_of(undivided)), 1.0 / 255);
}

}  // namespace
}  // namespace lamina::test
