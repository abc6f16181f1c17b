// A denoising step that ranks compute together, each on a thread with a CPU device of its own.

#include "models/flux2_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "comm/local/local_communicator.h"

namespace lamina::test {
namespace {

constexpr float kTolerance = 1e-4F;

RankBackend threads() {
  return {.create_device = [](std::size_t) { return create_cpu_device(); },
          .connect = [](const std::string& name,
                        const std::vector<std::size_t>& ranks) { return create_local_group(name, ranks.size()); }};
}

Model micro(const TensorParallel& part) {
  return Model::fixture("micro", part);
}

Model tiny_shapes(const TensorParallel& part) {
  return Model::tiny_shapes(part);
}

Model guidance(const TensorParallel& part) {
  return Model::fixture("guidance", part);
}

std::string name_of(const testing::TestParamInfo<ParallelSizes>& info) {
  return "tensor" + std::to_string(info.param.tensor) + "_sequence" + std::to_string(info.param.sequence);
}

ParallelSizes ranks(std::size_t tensor, std::size_t sequence) {
  return {.sequence = sequence, .tensor = tensor};
}

class Flux2Ranks : public testing::TestWithParam<ParallelSizes> {
 protected:
  std::vector<std::vector<float>> velocities(const MakeModel& make_model, const Step& step) const {
    return velocities_of_ranks(threads(), GetParam(), make_model, step);
  }
  void expect_recorded(const std::vector<float>& velocity, const Checkpoint& fixtures, const std::string& name) const {
    expect_near(velocity, read_floats(fixtures, name), kTolerance, name);
  }

  Checkpoint fixtures_ = Checkpoint::open_file(fixtures_dir() + "/fixtures.safetensors");
  Checkpoint micro_fixtures_ = Checkpoint::open_file(fixtures_dir() + "/micro.safetensors");
};

TEST(Flux2RankMemory, IsWhatTheModeNeeds) {
  constexpr std::int64_t kTokens = 547;
  constexpr std::int64_t kWidth = 128;
  constexpr std::int64_t kMlpWidth = 3 * kWidth;
  const auto floats_of = [](std::int64_t degree, const ModelGroups& groups) {
    const Model model = micro({degree, 0});
    Arena arena;
    const Flux2Activations activations(model.transformer, kTokens, DType::f32, groups, arena);
    return static_cast<std::int64_t>(arena.peak_bytes() / sizeof(float));
  };
  const auto padded = [](std::int64_t floats) { return (floats + 63) / 64 * 64; };
  EXPECT_EQ(floats_of(1, {}), padded(kTokens * (4 * kWidth + 2 * kMlpWidth)));
  const auto group = create_local_group("group", 2);
  // A term of the sums beside half of the heads and features.
  EXPECT_EQ(floats_of(2, {.tensor = group[0].get()}),
            padded(kTokens * (3 * kWidth / 2 + kWidth + kMlpWidth)) + padded(kTokens * kWidth));
  // q, k and v on their way out and in beside half of the tokens.
  EXPECT_EQ(floats_of(1, {.sequence = group[0].get()}),
            padded(274 * (4 * kWidth + 2 * kMlpWidth)) + 2 * padded(274 * 3 * kWidth));
}

/// 8 heads.
class MicroRanks : public Flux2Ranks {};

INSTANTIATE_TEST_SUITE_P(All, MicroRanks,
                         testing::Values(ranks(1, 1), ranks(2, 1), ranks(4, 1), ranks(8, 1), ranks(1, 2), ranks(1, 4),
                                         ranks(1, 8), ranks(2, 2), ranks(2, 4), ranks(4, 2)),
                         name_of);

/// 536 tokens, which divide by 8.
TEST_P(MicroRanks, FindTheRecordedVelocitiesOfBothBranches) {
  const Step step = first_step(
      micro_fixtures_, "micro",
      {read_floats(micro_fixtures_, "micro.prompt_embeds"), read_floats(fixtures_, "cfg128.negative_prompt_embeds")});
  const auto velocity = velocities(micro, step);
  expect_recorded(velocity[0], micro_fixtures_, "micro.step0.velocity_cond");
  expect_recorded(velocity[1], micro_fixtures_, "micro.step0.velocity_uncond");
}

/// 547 tokens, a prime: the last rank has fewer than the others.
TEST_P(MicroRanks, FindItOfTokensThatDoNotDivide) {
  const Step step = first_step(micro_fixtures_, "micro_odd", {read_floats(micro_fixtures_, "micro_odd.prompt_embeds")});
  expect_recorded(velocities(micro, step)[0], micro_fixtures_, "micro_odd.step0.velocity_cond");
}

/// 9 tokens: of 8 ranks, the fifth has one and three have none.
TEST_P(MicroRanks, MayHaveNoTokens) {
  Step step = first_step(micro_fixtures_, "micro", {read_floats(micro_fixtures_, "micro.prompt_embeds")});
  step.texts.front().resize(3 * 192);
  step.image.resize(6 * 128);
  step.velocity_tokens = 4;
  step.positions = joint(flux2_text_positions(3), flux2_image_positions(0, 2, 3));
  const auto alone = velocities_of_ranks(threads(), {}, micro, step);
  expect_near(velocities(micro, step)[0], alone[0], kTolerance, "velocity");
}

/// 5 heads, and reference tokens behind the picture's.
class TinyShapesRanks : public Flux2Ranks {};

INSTANTIATE_TEST_SUITE_P(All, TinyShapesRanks, testing::Values(ranks(5, 1), ranks(1, 5)), name_of);

TEST_P(TinyShapesRanks, FindTheRecordedVelocityOfTheTargetAlone) {
  Step step;
  step.texts = {read_floats(fixtures_, "edit.prompt_embeds"), read_floats(fixtures_, "edit.negative_prompt_embeds")};
  step.image = read_floats(fixtures_, "edit.model_input0");
  step.positions = joint(flux2_text_positions(512),
                         joint(flux2_image_positions(0, 8, 8), flux2_image_positions(flux2_reference_time(0), 8, 8)));
  step.velocity_tokens = 64;
  const auto velocity = velocities(tiny_shapes, step);
  for (std::size_t branch = 0; branch < 2; ++branch) {
    const std::string name = std::string("edit.step0.velocity_") + (branch == 0 ? "cond" : "uncond");
    std::vector<float> expected = read_floats(fixtures_, name);
    expected.resize(expected.size() / 2);
    expect_near(velocity[branch], expected, 2e-4F, name);
  }
}

/// 3 heads and 13 text tokens: the first rank has tokens of both kinds, the others have no text.
class GuidanceRanks : public Flux2Ranks {};

INSTANTIATE_TEST_SUITE_P(All, GuidanceRanks, testing::Values(ranks(3, 1), ranks(1, 3)), name_of);

TEST_P(GuidanceRanks, FindTheRecordedVelocity) {
  const Json inputs = read_json_file(fixtures_dir() + "/fixtures.json").at("guidance");
  const auto grid = flux2_image_positions(0, inputs.at("height"), inputs.at("width"));
  Step step;
  step.texts = {read_floats(fixtures_, "guidance.encoder_hidden_states")};
  step.image = read_floats(fixtures_, "guidance.hidden_states");
  step.positions = joint(flux2_text_positions(inputs.at("text")), grid);
  step.velocity_tokens = static_cast<std::int64_t>(grid.size());
  step.timestep = inputs.at("timestep");
  step.guidance = inputs.at("guidance").get<float>();
  expect_recorded(velocities(guidance, step)[0], fixtures_, "guidance.output");
}

}  // namespace
}  // namespace lamina::test
