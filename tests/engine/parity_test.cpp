#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "engine/engine_fixture.h"
#include "pipelines/image.h"
#include "test_data.h"

namespace lamina::test {
namespace {

/// A run that the reference implementation recorded.
struct Case {
  const char* name;
  const char* tensors;   ///< file of the recorded tensors
  const char* settings;  ///< file of prompt, size, steps, guidance
  bool micro_transformer;
  double last_latents_tolerance;
};

void PrintTo(const Case& parity, std::ostream* out) {
  *out << parity.name;
}

class Parity : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Flux2, Parity,
                         ::testing::Values(Case{"cfg128", "fixtures.safetensors", "fixtures.json", false, 1e-3},
                                           Case{"wide", "fixtures.safetensors", "fixtures.json", false, 2e-4},
                                           Case{"edit", "fixtures.safetensors", "fixtures.json", false, 2e-4},
                                           Case{"micro", "micro.safetensors", "micro.json", true, 2e-4},
                                           Case{"micro_odd", "micro.safetensors", "micro.json", true, 2e-4}),
                         [](const auto& parity) { return parity.param.name; });

GenerateRequest recorded_request(const Case& parity) {
  std::ifstream file(test_data::fixtures() / "flux2" / parity.settings);
  const nlohmann::json settings = nlohmann::json::parse(file).at(parity.name);
  GenerateRequest request;
  request.prompt = settings.at("prompt");
  request.height = settings.at("height").get<std::int64_t>();
  request.width = settings.at("width").get<std::int64_t>();
  request.num_inference_steps = settings.at("num_inference_steps").get<std::int64_t>();
  request.guidance_scale = settings.at("guidance_scale").get<double>();
  request.keep_tensors = true;
  return request;
}

/// The recorded input picture of the edit case as a PNG.
std::string write_reference(const Fixtures& fixtures, const std::filesystem::path& folder) {
  const ConstTensorView planes = fixtures.view("edit.input");
  RgbImage image{planes.size(1), planes.size(2), {}};
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
    for (std::int64_t channel = 0; channel < 3; ++channel)
      image.pixels.push_back(planes.as<std::uint8_t>()[channel * pixels + pixel]);
  const std::filesystem::path path = folder / "reference.png";
  write_png(AtomicFile(path), image, {});
  return path.string();
}

std::vector<float> step(const std::vector<float>& latents, std::size_t index, std::size_t steps) {
  const std::size_t size = latents.size() / steps;
  return {latents.begin() + static_cast<std::ptrdiff_t>(index * size),
          latents.begin() + static_cast<std::ptrdiff_t>((index + 1) * size)};
}

TEST_P(Parity, StreamedRunMatchesTheReference) {
  const Case& parity = GetParam();
  const std::string name = parity.name;
  const ScratchFolder scratch;
  const Fixtures fixtures(parity.tensors);
  GenerateRequest request = recorded_request(parity);
  request.noise_file = write_noise(fixtures, name + ".noise", scratch.path());
  if (name == "edit") request.images = {write_reference(fixtures, scratch.path())};

  const auto generator = make_generator(parity.micro_transformer ? micro_model(scratch.path()) : tiny_shapes(),
                                        {.stream = true, .poison_released = true});
  const GenerateResult result = generator->generate(request);

  EXPECT_LE(largest_difference(tensor_of(result, "prompt_embeds").values, fixtures.floats(name + ".prompt_embeds")),
            2e-4);
  const std::vector<float>& latents = tensor_of(result, "latents").values;
  const std::vector<float> recorded = fixtures.floats(name + ".latents");
  const auto steps = static_cast<std::size_t>(*request.num_inference_steps);
  for (std::size_t i = 0; i < steps; ++i)
    EXPECT_LE(largest_difference(step(latents, i, steps), step(recorded, i, steps)),
              i + 1 == steps ? parity.last_latents_tolerance : 2e-4)
        << "step " << i;
  EXPECT_LE(mean_difference(tensor_of(result, "image").values, fixtures.floats(name + ".image")), 1.0 / 255);
}

/// The seeds with which the cases' noise was drawn give the same pictures as the recorded noise.
TEST(ParityOfSeeds, ASeedDrawsTheReferencesNoise) {
  const Fixtures fixtures("fixtures.safetensors");
  GenerateRequest request = recorded_request({"wide", "", "fixtures.json", false, 0});
  request.num_inference_steps = 8;
  request.seed = 12;
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  const GenerateResult result = generator->generate(request);
  EXPECT_LE(largest_difference(tensor_of(result, "latents").values, fixtures.floats("wide.latents")), 2e-4);
}

}  // namespace
}  // namespace lamina::test
