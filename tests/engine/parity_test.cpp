#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "test_data.h"

namespace lamina::test {
namespace {

struct Case {
  RecordedCase recorded;
  double last_latents_tolerance;
};

void PrintTo(const Case& parity, std::ostream* out) {
  PrintTo(parity.recorded, out);
}

class Parity : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Flux2, Parity,
                         ::testing::Values(Case{{"cfg128", "fixtures.safetensors", "fixtures.json", false}, 1e-3},
                                           Case{{"wide", "fixtures.safetensors", "fixtures.json", false}, 2e-4},
                                           Case{{"edit", "fixtures.safetensors", "fixtures.json", false}, 2e-4},
                                           Case{{"micro", "micro.safetensors", "micro.json", true}, 2e-4},
                                           Case{{"micro_odd", "micro.safetensors", "micro.json", true}, 2e-4}),
                         [](const auto& parity) { return parity.param.recorded.name; });

TEST_P(Parity, StreamedRunMatchesTheReference) {
  const Case& parity = GetParam();
  const std::string name = parity.recorded.name;
  const ScratchFolder scratch;
  const Fixtures fixtures(parity.recorded.tensors);
  const GenerateRequest request = recorded_request(parity.recorded, fixtures, scratch.path());
  const auto generator =
      make_generator(recorded_model(parity.recorded, scratch.path()), {.stream = true, .poison_released = true});
  const GenerateResult result = generator->generate(request);

  EXPECT_LE(largest_difference(tensor_of(result, "prompt_embeds").values, fixtures.floats(name + ".prompt_embeds")),
            2e-4);
  const std::vector<float>& latents = tensor_of(result, "latents").values;
  const std::vector<float> recorded = fixtures.floats(name + ".latents");
  const auto steps = static_cast<std::size_t>(*request.num_inference_steps);
  for (std::size_t i = 0; i < steps; ++i)
    EXPECT_LE(largest_difference(step_of(latents, i, steps), step_of(recorded, i, steps)),
              i + 1 == steps ? parity.last_latents_tolerance : 2e-4)
        << "step " << i;
  EXPECT_LE(mean_difference(tensor_of(result, "image").values, fixtures.floats(name + ".image")), 1.0 / 255);
}

/// The seeds with which the cases' noise was drawn give the same pictures as the recorded noise.
TEST(ParityOfSeeds, ASeedDrawsTheReferencesNoise) {
  const Fixtures fixtures("fixtures.safetensors");
  const ScratchFolder scratch;
  GenerateRequest request = recorded_request({"wide", "", "fixtures.json", false}, fixtures, scratch.path());
  request.noise_file.clear();
  request.num_inference_steps = 8;
  request.seed = 12;
  request.noise_dtype = NoiseDType::float32;
  const auto generator = make_generator(tiny_shapes(), {.stream = true});
  const GenerateResult result = generator->generate(request);
  EXPECT_LE(largest_difference(tensor_of(result, "latents").values, fixtures.floats("wide.latents")), 2e-4);
}

}  // namespace
}  // namespace lamina::test
