#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "lamina/engine.h"
#include "test_data.h"

namespace lamina::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

struct Refusal {
  const char* name;
  std::function<void(GenerateRequest&)> change;
  ErrorCode code;
  std::vector<std::string> says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class RequestRefusals : public ::testing::TestWithParam<Refusal> {
 protected:
  static Generator& generator() {
    static const std::unique_ptr<Generator> shared = make_generator(tiny_shapes(), {.stream = true});
    return *shared;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Rows, RequestRefusals,
    ::testing::Values(
        Refusal{"height_off_the_grid",
                [](auto& r) { r.height = 100; },
                ErrorCode::invalid_argument,
                {"height", "100", "96", "112"}},
        Refusal{"width_off_the_grid",
                [](auto& r) { r.width = 129; },
                ErrorCode::invalid_argument,
                {"width", "129", "128", "144"}},
        Refusal{"height_zero", [](auto& r) { r.height = 0; }, ErrorCode::invalid_argument, {"height", "0", "16"}},
        Refusal{"width_negative", [](auto& r) { r.width = -16; }, ErrorCode::invalid_argument, {"width", "-16", "16"}},
        Refusal{"height_huge", [](auto& r) { r.height = 100000; }, ErrorCode::invalid_argument, {"height", "100000"}},
        Refusal{"steps_zero",
                [](auto& r) { r.num_inference_steps = 0; },
                ErrorCode::invalid_argument,
                {"num_inference_steps", "0"}},
        Refusal{"steps_negative",
                [](auto& r) { r.num_inference_steps = -1; },
                ErrorCode::invalid_argument,
                {"num_inference_steps", "-1"}},
        Refusal{"guidance_negative",
                [](auto& r) { r.guidance_scale = -1; },
                ErrorCode::invalid_argument,
                {"guidance_scale", "-1"}},
        Refusal{"guidance_not_a_number",
                [](auto& r) { r.guidance_scale = std::nan(""); },
                ErrorCode::invalid_argument,
                {"guidance_scale", "nan"}},
        Refusal{"prompt_not_utf8", [](auto& r) { r.prompt = "ab\xff"; }, ErrorCode::invalid_argument, {"2"}},
        Refusal{"image_missing", [](auto& r) { r.images = {"no/such.png"}; }, ErrorCode::not_found, {"no/such.png"}},
        Refusal{"image_is_no_picture",
                [](auto& r) { r.images = {(test_data::fixtures() / "flux2/micro.json").string()}; },
                ErrorCode::invalid_argument,
                {"micro.json"}},
        Refusal{"noise_missing",
                [](auto& r) { r.noise_file = "no/such.safetensors"; },
                ErrorCode::not_found,
                {"no/such.safetensors"}},
        Refusal{"noise_of_another_name",
                [](auto& r) { r.noise_file = (test_data::fixtures() / "flux2/micro.safetensors").string(); },
                ErrorCode::not_found,
                {"micro.safetensors", "noise"}}),
    [](const auto& refusal) { return refusal.param.name; });

TEST_P(RequestRefusals, NameFieldAndValue) {
  GenerateRequest request = small_request();
  GetParam().change(request);
  try {
    generator().generate(request);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    for (const std::string& part : GetParam().says) EXPECT_THAT(error.message(), HasSubstr(part));
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
  }
}

TEST(Requests, NoiseOfAnotherShapeIsRefusedWithBothShapes) {
  const ScratchFolder scratch;
  GenerateRequest request = small_request();
  request.noise_file = write_noise(Fixtures("micro.safetensors"), "micro.noise", scratch.path());
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  try {
    generator->generate(request);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::incompatible);
    EXPECT_THAT(error.message(), HasSubstr("[1, 128, 4, 6]"));
    EXPECT_THAT(error.message(), HasSubstr("[1, 128, 2, 3]"));
  }
}

TEST(Requests, AnEmptyPromptIsLegalAndALongOneIsCutWithANote) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = small_request();
  request.num_inference_steps = 1;
  request.prompt = "";
  EXPECT_TRUE(generator->generate(request).notes.empty());
  for (int i = 0; i < 600; ++i) request.prompt += "red ";
  EXPECT_THAT(generator->generate(request).notes, Contains(HasSubstr("cut off")));
}

/// A model folder that differs from tiny-shapes in its index alone.
std::filesystem::path distilled_model(const std::filesystem::path& folder) {
  const std::filesystem::path model = folder / "distilled";
  std::filesystem::create_directories(model);
  for (const char* entry : {"scheduler", "text_encoder", "tokenizer", "transformer", "vae"})
    std::filesystem::create_symlink(tiny_shapes() / entry, model / entry);
  Json index = read_json_file(tiny_shapes() / "model_index.json");
  index["is_distilled"] = true;
  std::ofstream(model / "model_index.json") << index.dump();
  return model;
}

TEST(Requests, ADistilledModelTakesFourStepsAndSaysThatGuidanceHasNoEffect) {
  const ScratchFolder scratch;
  const auto generator = make_generator(distilled_model(scratch.path()), {.stream = true});
  GenerateRequest request = small_request();
  request.num_inference_steps.reset();
  const GenerateResult result = generator->generate(request);
  EXPECT_THAT(result.notes, Contains(HasSubstr("guidance-scale")));
  EXPECT_EQ(stage_of(*generator, "denoise").passes, 4U);
  EXPECT_THAT(result.settings, Contains(std::pair<std::string, std::string>("guidance_scale", "1")));
}

TEST(Requests, WhatDoesNotMatterIsNotInTheSettings) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = small_request();
  request.num_inference_steps = 1;
  request.guidance_scale = 1;
  const GenerateResult one = generator->generate(request);
  EXPECT_TRUE(one.notes.empty());
  request.guidance_scale = 0.5;
  request.seed += std::uint64_t{7} << 32;
  const GenerateResult other = generator->generate(request);
  EXPECT_EQ(other.picture.rgb, one.picture.rgb);
  EXPECT_EQ(other.settings, one.settings);
  EXPECT_THAT(other.notes, Contains(HasSubstr("guidance-scale 0.5")));
  EXPECT_THAT(other.notes, Contains(HasSubstr("low 32 bits")));
}

TEST(Requests, OtherNoiseIsAnotherSetting) {
  const ScratchFolder scratch;
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = small_request();
  request.height = 128;
  request.width = 128;
  request.num_inference_steps = 1;
  request.guidance_scale = 1;
  const Fixtures fixtures("fixtures.safetensors");
  request.noise_file = write_noise(fixtures, "cfg128.noise", scratch.path());
  const GenerateResult one = generator->generate(request);
  request.noise_file = write_noise(fixtures, "edit.noise", scratch.path());
  EXPECT_NE(generator->generate(request).settings, one.settings);
}

/// What a caller throws from its progress function ends the request alone.
TEST(Requests, ProgressMayCancel) {
  for (const bool stream : {true, false}) {
    const auto generator = make_generator(tiny_shapes(), {.stream = stream});
    const std::size_t idle = generator->device().memory().use().used_bytes;
    const GenerateResult whole = generator->generate(small_request());
    EXPECT_THROW(generator->generate(small_request(),
                                     [](const Progress& progress) {
                                       if (progress.stage == "denoise") fail(ErrorCode::cancelled, "enough");
                                     }),
                 Error);
    EXPECT_EQ(generator->device().memory().use().used_bytes, idle);
    EXPECT_EQ(generator->generate(small_request()).picture.rgb, whole.picture.rgb);
  }
}

TEST(Requests, SizeDefaultsToTheModels) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = small_request();
  request.height.reset();
  request.width.reset();
  request.num_inference_steps = 1;
  const GenerateResult result = generator->generate(request);
  EXPECT_EQ(result.picture.height, 128);
  EXPECT_EQ(result.picture.width, 128);
}

TEST(Configuration, IsRefusedByFieldOrToldToHaveNoEffect) {
  EngineConfig config{.model = tiny_shapes().string()};
  config.dlo_slots = 0;
  EXPECT_THROW(inspect(config), Error);
  config.dlo_slots = 2;
  config.device = "cuda:1000";
  EXPECT_THROW(Engine{config}, Error);
  config.device = "tpu";
  EXPECT_THROW(Engine{config}, Error);
  config.device = "cpu";
  config.dlo_resident_layers = 3;
  config.dlo_slots = 5;
  config.dlo_host_backing = HostBackingChoice::private_pages;
  EXPECT_THAT(Engine(config).notes(), ::testing::ElementsAre(HasSubstr("dlo-slots has no effect"),
                                                             HasSubstr("dlo-resident-layers has no effect"),
                                                             HasSubstr("dlo-host-backing has no effect")));
  config.enable_distributed_layerwise_offload = true;
  config.dlo_resident_layers = 16;
  config.dlo_slots = 28;
  EXPECT_THAT(Engine(config).notes(), Contains(HasSubstr("dlo-slots 28")));
  EXPECT_THAT(Engine(config).notes(), Contains(HasSubstr("none of them streams")));
}

TEST(Configuration, InspectionCountsBlocksAndBytes) {
  EngineConfig config{.model = tiny_shapes().string()};
  config.enable_distributed_layerwise_offload = true;
  config.dlo_resident_layers = 2;
  const Json json = parse_json(inspect(config).json, "inspection");
  const Json& transformer = json.at("parts").at(1);
  EXPECT_EQ(transformer.at("component"), "transformer");
  EXPECT_EQ(transformer.at("stacks").at(0).at("units").size(), 16U);
  EXPECT_EQ(transformer.at("stacks").at(0).at("units").at(0).at("on_device"), "resident");
  EXPECT_EQ(transformer.at("stacks").at(0).at("units").at(2).at("on_device"), "streamed");
  // 26 D² and 13 D² weights of two bytes, D = 160, and four and two norms of 32, each padded to 256 bytes.
  const std::size_t double_block = 2 * 26 * 160 * 160 + 4 * 256;
  const std::size_t single_block = 2 * 13 * 160 * 160 + 2 * 256;
  EXPECT_EQ(transformer.at("stacks").at(0).at("units").at(0).at("bytes"), double_block);
  EXPECT_EQ(transformer.at("stacks").at(0).at("units").at(4).at("bytes"), single_block);
  EXPECT_EQ(transformer.at("device").at("resident_bytes"), 2 * double_block);
}

}  // namespace
}  // namespace lamina::test
