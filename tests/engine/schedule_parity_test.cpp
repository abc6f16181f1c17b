#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/expect_error.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "engine/own_checkpoint.h"
#include "weights/safetensors_writer.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Pair;

/// The demo model with a scheduler whose configuration is patched.
fs::path model_with_scheduler(const fs::path& folder, const char* patch) {
  fs::create_directories(folder / "scheduler");
  for (const char* entry : {"model_index.json", "transformer", "text_encoder", "tokenizer", "vae"})
    fs::create_symlink(tiny_shapes() / entry, folder / entry);
  Json config = read_json_file(tiny_shapes() / "scheduler/scheduler_config.json");
  config.merge_patch(parse_json(patch, "patch"));
  std::ofstream(folder / "scheduler/scheduler_config.json") << config.dump();
  return folder;
}

/// As tools/record/record_schedules.py asked the reference.
GenerateRequest schedule_request() {
  GenerateRequest request;
  request.prompt = "a blue square";
  request.height = 64;
  request.width = 48;
  request.num_inference_steps = 5;
  request.guidance_scale = 1;
  request.seed = 21;
  request.noise_dtype = NoiseDType::float32;
  request.output_type = OutputType::latent;
  request.keep_tensors = true;
  return request;
}

struct SchedulerRun {
  const char* name;
  const char* scheduler;
  std::vector<double> sigmas;
};

class ScheduleParity : public ::testing::TestWithParam<SchedulerRun> {};

INSTANTIATE_TEST_SUITE_P(
    Schedulers, ScheduleParity,
    ::testing::Values(SchedulerRun{"stochastic", R"({"stochastic_sampling": true})", {}},
                      SchedulerRun{"linear", R"({"time_shift_type": "linear", "num_train_timesteps": 500})", {}},
                      SchedulerRun{"given", R"({"use_karras_sigmas": true})", {1.0, 0.8, 0.55, 0.3, 0.1}}),
    [](const auto& run) { return run.param.name; });

TEST_P(ScheduleParity, LatentsOfEveryStepAreTheReferences) {
  const SchedulerRun& run = GetParam();
  const ScratchFolder scratch;
  const auto generator = make_generator(model_with_scheduler(scratch.path(), run.scheduler), {.stream = true});
  GenerateRequest request = schedule_request();
  request.sigmas = run.sigmas;
  const GenerateResult result = generator->generate(request);
  const Fixtures recorded("schedules.safetensors");
  EXPECT_LE(
      largest_difference(tensor_of(result, "latents").values, recorded.floats(std::string(run.name) + ".latents")),
      2e-4);
}

TEST(Schedules, SigmasDecideTheNumberOfStepsAndStandInTheSettings) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = schedule_request();
  request.sigmas = {1.0, 0.25};
  testing::expect_error(ErrorCode::invalid_argument, {"2 sigmas", "5 inference steps"},
                        [&] { generator->generate(request); });
  request.num_inference_steps.reset();
  const GenerateResult result = generator->generate(request);
  EXPECT_THAT(result.settings, Contains(Pair("sigmas", "1, 0.25")));
  EXPECT_THAT(result.settings, Contains(Pair("num_inference_steps", "2")));
}

TEST(Noise, DTypeFollowsTheCheckpointUnlessTold) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = small_request();
  request.output_type = OutputType::latent;
  const GenerateResult automatic = generator->generate(request);
  EXPECT_THAT(automatic.settings, Contains(Pair("noise_dtype", "bfloat16")));
  request.noise_dtype = NoiseDType::bfloat16;
  EXPECT_EQ(generator->generate(request).tensors.back().values, automatic.tensors.back().values);
  request.noise_dtype = NoiseDType::float32;
  EXPECT_NE(generator->generate(request).tensors.back().values, automatic.tensors.back().values);
}

TEST(Noise, ACudaGeneratorTakesTheWholeSeed) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  GenerateRequest request = small_request();
  request.output_type = OutputType::latent;
  const GenerateResult on_cpu = generator->generate(request);
  request.generator_device = GeneratorDevice::cuda;
  const GenerateResult on_cuda = generator->generate(request);
  EXPECT_NE(on_cuda.tensors.back().values, on_cpu.tensors.back().values);
  EXPECT_THAT(on_cuda.settings, Contains(Pair("generator_device", "cuda")));
  request.seed += std::uint64_t{1} << 32;
  const GenerateResult other = generator->generate(request);
  EXPECT_NE(other.tensors.back().values, on_cuda.tensors.back().values);
  EXPECT_TRUE(other.notes.empty());
}

/// The klein pipeline gives no guidance to a transformer that has an embedder for it, and runs two branches.
TEST(Guidance, AnEmbedderForItChangesNothing) {
  const ScratchFolder scratch;
  OwnedTensors tensors = demo_transformer();
  for (const char* layer : {"linear_1", "linear_2"}) {
    const std::string name = std::string("time_guidance_embed.guidance_embedder.") + layer + ".weight";
    tensors.push_back({{name, DType::f32, {2, 2}}, std::vector<std::byte>(16)});
  }
  const fs::path model = model_of(scratch.path(), tensors);
  Json config = read_json_file(model / "transformer/config.json");
  config["guidance_embeds"] = true;
  std::ofstream(model / "transformer/config.json") << config.dump();
  const GenerateResult with = make_generator(model, {.stream = true})->generate(small_request());
  const GenerateResult without = make_generator(tiny_shapes(), {.stream = true})->generate(small_request());
  EXPECT_EQ(with.picture.rgb, without.picture.rgb);
}

TEST(Checkpoints, OfMoreBlocksThanTheConfigurationAreRefused) {
  const ScratchFolder scratch;
  const fs::path model = model_of(scratch.path(), demo_transformer());
  Json config = read_json_file(model / "transformer/config.json");
  config["num_single_layers"] = config["num_single_layers"].get<int>() - 1;
  std::ofstream(model / "transformer/config.json") << config.dump();
  testing::expect_error(ErrorCode::incompatible, {"transformer", "single_transformer_blocks.", "belongs to a block"},
                        [&] { make_generator(model, {.stream = true}); });
}

/// The demo model with a text encoder of 27 layers, stored as transformers stores a Qwen3Model.
fs::path model_with_short_encoder(const fs::path& folder) {
  fs::create_directories(folder / "text_encoder");
  for (const char* entry : {"model_index.json", "scheduler", "transformer", "tokenizer", "vae"})
    fs::create_symlink(tiny_shapes() / entry, folder / entry);
  Json config = read_json_file(tiny_shapes() / "text_encoder/config.json");
  config["num_hidden_layers"] = 27;
  config["layer_types"].erase(27);
  std::ofstream(folder / "text_encoder/config.json") << config.dump();
  const Checkpoint checkpoint = Checkpoint::open(tiny_shapes() / "text_encoder", "model");
  constexpr std::string_view kPrefix = "model.";
  std::vector<NamedTensor> tensors;
  for (const TensorSpec& spec : checkpoint.tensors())
    if (spec.name.starts_with(kPrefix) && spec.name.find("layers.27.") == std::string::npos)
      tensors.push_back({spec.name.substr(kPrefix.size()), checkpoint.view(spec)});
  AtomicFile file(folder / "text_encoder/model.safetensors");
  write_safetensors(file, tensors);
  file.commit();
  return folder;
}

TEST(TextEncoder, OfAsManyLayersAsAreReadEndsInItsNorm) {
  const ScratchFolder scratch;
  const auto generator = make_generator(model_with_short_encoder(scratch.path()), {.stream = true});
  GenerateRequest request = small_request();
  request.prompt = "a red circle on a white background";  // case cfg128's
  request.output_type = OutputType::latent;
  request.keep_tensors = true;
  const std::vector<float> found = tensor_of(generator->generate(request), "prompt_embeds").values;
  std::vector<float> expected = Fixtures("fixtures.safetensors").floats("cfg128.prompt_embeds");
  const std::vector<float> last = Fixtures("text_encoder.safetensors").floats("last_of_27");
  for (std::size_t i = 0; i < last.size(); ++i) expected[i / 64 * 192 + 128 + i % 64] = last[i];
  EXPECT_LE(largest_difference(found, expected), 2e-4);
}

}  // namespace
}  // namespace lamina::test
