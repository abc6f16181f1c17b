#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/engine_fixture.h"
#include "lamina/engine.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"
#include "weights/safetensors_writer.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

/// tiny-shapes without its text encoder opened.
std::unique_ptr<Generator> make_embeds_generator(bool stream) {
  return std::make_unique<Generator>(create_cpu_device({}),
                                     open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = false}),
                                     OffloadOptions{.stream = stream});
}

GenerateRequest embeds_request(const std::string& file) {
  GenerateRequest request = small_request();
  request.prompt = "";
  request.prompt_embeds_file = file;
  return request;
}

std::string write_embeds(const fs::path& file, const std::vector<NamedTensor>& tensors) {
  AtomicFile out(file);
  write_safetensors(out, tensors);
  out.commit();
  return file.string();
}

TEST(PromptEmbeddings, OfAPromptGiveItsPictureWithoutATextEncoder) {
  const ScratchFolder scratch;
  const std::string file = (scratch.path() / "tensors.safetensors").string();
  const GenerateResult prompted = make_generator(tiny_shapes(), {.stream = true})->generate(small_request());
  write_tensors(prompted, file);
  for (const bool stream : {false, true}) {
    const auto generator = make_embeds_generator(stream);
    const GenerateResult given = generator->generate(embeds_request(file));
    EXPECT_EQ(given.picture.rgb, prompted.picture.rgb);
    EXPECT_EQ(tensor_of(given, "latents").values, tensor_of(prompted, "latents").values);
    EXPECT_THAT(given.settings, Contains(std::pair<std::string, std::string>("prompt_embeds", "given")));
    for (const auto& [key, value] : given.settings) EXPECT_NE(key, "prompt");
    for (const StageReport& stage : generator->stage_reports()) EXPECT_NE(stage.need.stage, "encode prompt");
  }
}

TEST(PromptEmbeddings, RandomOnesHaveUnitVarianceAndOneOfThemDoesNotDependOnGuidance) {
  const auto generator = make_embeds_generator(true);
  GenerateRequest request = embeds_request("");
  request.prompt_embeds_seed = 2;
  request.num_inference_steps = 1;
  const GenerateResult guided = generator->generate(request);
  const std::vector<float>& values = tensor_of(guided, "prompt_embeds").values;
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  EXPECT_NEAR(squares / static_cast<double>(values.size()), 1.0, 0.02);
  EXPECT_NE(values, tensor_of(guided, "negative_prompt_embeds").values);
  request.guidance_scale = 1.0;
  EXPECT_EQ(tensor_of(generator->generate(request), "prompt_embeds").values, values);
  request.prompt_embeds_seed = 3;
  EXPECT_NE(tensor_of(generator->generate(request), "prompt_embeds").values, values);
}

TEST(PromptEmbeddings, NegativeOnesAreNeededForGuidanceAlone) {
  const ScratchFolder scratch;
  const std::vector<std::uint16_t> half(512 * 192, 0x3f00);
  const std::string file = write_embeds(
      scratch.path() / "positive.safetensors",
      {{"prompt_embeds", ConstTensorView(std::as_bytes(std::span(half)).data(), DType::bf16, {512, 192})}});
  const auto generator = make_embeds_generator(true);
  GenerateRequest request = embeds_request(file);
  try {
    generator->generate(request);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.message(), HasSubstr("negative_prompt_embeds"));
    EXPECT_THAT(error.message(), HasSubstr(file));
  }
  request.guidance_scale = 1.0;
  EXPECT_EQ(tensor_of(generator->generate(request), "prompt_embeds").values, std::vector<float>(half.size(), 0.5F));
}

TEST(PromptEmbeddings, ABatchOfOneIsLegal) {
  const ScratchFolder scratch;
  const std::vector<float> values(512 * 192, 0.25F);
  const std::byte* data = std::as_bytes(std::span(values)).data();
  const std::string file = write_embeds(scratch.path() / "batch.safetensors",
                                        {{"prompt_embeds", ConstTensorView(data, DType::f32, {1, 512, 192})}});
  GenerateRequest request = embeds_request(file);
  request.guidance_scale = 1.0;
  EXPECT_EQ(tensor_of(make_embeds_generator(true)->generate(request), "prompt_embeds").values, values);
}

TEST(PromptEmbeddings, AreRefusedByFileAndTensor) {
  const ScratchFolder scratch;
  const std::vector<float> bad(512 * 192, std::numeric_limits<float>::quiet_NaN());
  const std::byte* data = std::as_bytes(std::span(bad)).data();
  const auto file_of = [&](const std::string& name, DType dtype, const Shape& shape) {
    return write_embeds(scratch.path() / name, {{"prompt_embeds", ConstTensorView(data, dtype, shape)}});
  };
  struct Row {
    std::function<void(GenerateRequest&)> change;
    ErrorCode code;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows{
      {[&](auto& r) {
         r.prompt_embeds_file = file_of("shape", DType::f32, {512, 64});
       },
       ErrorCode::incompatible,
       {"shape", "prompt_embeds", "[512, 64]", "[512, 192]"}},
      {[&](auto& r) {
         r.prompt_embeds_file = file_of("dtype", DType::i16, {512, 192});
       },
       ErrorCode::not_implemented,
       {"dtype", "prompt_embeds", "I16"}},
      {[&](auto& r) {
         r.prompt_embeds_file = file_of("nan", DType::f32, {512, 192});
       },
       ErrorCode::corrupt,
       {"nan", "prompt_embeds", "element 0"}},
      {[](auto& r) { r.prompt_embeds_file = "no/such.safetensors"; }, ErrorCode::not_found, {"no/such.safetensors"}},
      {[](auto& r) { r.prompt_embeds_seed = 1; }, ErrorCode::invalid_argument, {"not both"}},
      {[](auto& r) { r.prompt = "a"; }, ErrorCode::invalid_argument, {"exclude each other"}},
      {[](auto& r) { r.prompt_embeds_file = ""; }, ErrorCode::invalid_argument, {"text encoder is not loaded"}}};
  const auto generator = make_embeds_generator(true);
  for (const Row& row : rows) {
    GenerateRequest request = embeds_request("some.safetensors");
    row.change(request);
    try {
      generator->generate(request);
      ADD_FAILURE() << "was accepted: " << row.says.front();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << error.what();
      for (const std::string& part : row.says) EXPECT_THAT(error.message(), HasSubstr(part));
    }
  }
}

}  // namespace
}  // namespace lamina::test
