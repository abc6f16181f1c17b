#include "models/flux2/flux2_transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/config_reader.h"
#include "base/json.h"
#include "models/bind_all.h"
#include "models/device_run.h"
#include "models/flux2_step.h"

namespace lamina {
namespace {

using test::BoundWeights;
using test::DeviceRun;
using test::ExactMemory;
using test::expect_near;
using test::first_step;
using test::fixtures_dir;
using test::joint;
using test::Model;
using test::read_floats;
using test::Step;
using test::StepOnDevice;

constexpr float kTolerance = 2e-4F;

class Flux2Parity : public testing::Test {
 protected:
  using AfterUnit = std::function<void(const StepOnDevice&, std::size_t unit)>;

  /// The velocity of each branch, computed in exactly the memory that a planning run finds.
  std::vector<std::vector<float>> velocities(Model& model, const Step& step, const AfterUnit& after_unit = {}) {
    const auto lay_out = [&](Arena& arena) { return std::make_unique<StepOnDevice>(model.transformer, step, arena); };
    const ExactMemory memory(run_, model.transformer.parameters(), lay_out,
                             [](const StepOnDevice& on_device, ops::OpContext& context) { on_device.run(context); });
    const BoundWeights weights(run_.device(), run_.stream(), model.checkpoint, model.transformer.plan(),
                               model.transformer.parameters());
    Arena arena = memory.arena();
    ops::OpContext context = memory.context(run_);
    const auto on_device = lay_out(arena);
    on_device->upload(run_);
    on_device->run(context, [&](std::size_t unit) {
      if (after_unit) after_unit(*on_device, unit);
    });
    std::vector<std::vector<float>> result;
    for (std::size_t i = 0; i < step.texts.size(); ++i)
      result.push_back(run_.download(on_device->branch(i).velocity()));
    memory.expect_used_up(arena, context);
    return result;
  }

  DeviceRun run_;
  Checkpoint fixtures_ = Checkpoint::open_file(fixtures_dir() + "/fixtures.safetensors");
  Checkpoint micro_fixtures_ = Checkpoint::open_file(fixtures_dir() + "/micro.safetensors");
};

TEST_F(Flux2Parity, BlocksAndVelocitiesOfBothBranches) {
  Model model = Model::tiny_shapes();
  const Step step = first_step(
      fixtures_, "cfg128",
      {read_floats(fixtures_, "cfg128.prompt_embeds"), read_floats(fixtures_, "cfg128.negative_prompt_embeds")});
  std::size_t compared = 0;
  const auto compare = [&](const ConstTensorView& tensor, const std::string& name) {
    expect_near(run_.download(tensor), read_floats(fixtures_, "cfg128.step0." + name), kTolerance, name);
    ++compared;
  };
  const auto velocity = velocities(model, step, [&](const StepOnDevice& on_device, std::size_t unit) {
    const ConstTensorView residual = on_device.branch(0).residual();
    const std::string block = "block" + std::to_string(unit);
    if (unit == 0 || unit == 3) {
      compare(residual.slice(0, 0, 512), block + ".text");
      compare(residual.slice(0, 512, 576), block + ".image");
    }
    if (unit == 4 || unit == 15) compare(residual, block + ".joint");
  });
  EXPECT_EQ(compared, 6U);
  expect_near(velocity[0], read_floats(fixtures_, "cfg128.step0.velocity_cond"), kTolerance, "velocity_cond");
  expect_near(velocity[1], read_floats(fixtures_, "cfg128.step0.velocity_uncond"), kTolerance, "velocity_uncond");
}

TEST_F(Flux2Parity, PictureThatIsNotSquare) {
  Model model = Model::tiny_shapes();
  const Step step = first_step(fixtures_, "wide", {read_floats(fixtures_, "wide.prompt_embeds")});
  const auto velocity = velocities(model, step);
  expect_near(velocity[0], read_floats(fixtures_, "wide.step0.velocity_cond"), kTolerance, "velocity_cond");
}

class Flux2Edit : public Flux2Parity {
 protected:
  Step step(std::int64_t velocity_tokens) const {
    const auto picture = joint(flux2_image_positions(0, 8, 8), flux2_image_positions(flux2_reference_time(0), 8, 8));
    Step step;
    step.texts = {read_floats(fixtures_, "edit.prompt_embeds"), read_floats(fixtures_, "edit.negative_prompt_embeds")};
    step.image = read_floats(fixtures_, "edit.model_input0");
    step.positions = joint(flux2_text_positions(512), picture);
    step.velocity_tokens = velocity_tokens;
    return step;
  }
};

TEST_F(Flux2Edit, PositionsOfTargetAndReference) {
  const std::vector<Flux2Position> positions = step(128).positions;
  const ConstTensorView ids = fixtures_.view({"edit.img_ids", DType::i32, {128, 4}});
  ASSERT_EQ(positions.size(), 512U + 128U);
  EXPECT_EQ(std::memcmp(positions.data() + 512, ids.data(), ids.span_bytes()), 0);
}

TEST_F(Flux2Edit, VelocityOfAllImageTokens) {
  Model model = Model::tiny_shapes();
  const auto velocity = velocities(model, step(128));
  expect_near(velocity[0], read_floats(fixtures_, "edit.step0.velocity_cond"), kTolerance, "velocity_cond");
  expect_near(velocity[1], read_floats(fixtures_, "edit.step0.velocity_uncond"), kTolerance, "velocity_uncond");
}

TEST_F(Flux2Edit, VelocityOfTheTargetAlone) {
  Model model = Model::tiny_shapes();
  const auto velocity = velocities(model, step(64));
  std::vector<float> expected = read_floats(fixtures_, "edit.step0.velocity_cond");
  expected.resize(expected.size() / 2);
  expect_near(velocity[0], expected, kTolerance, "velocity_cond");
}

TEST_F(Flux2Parity, EmbeddedGuidance) {
  Model model = Model::fixture("guidance");
  const Json inputs = read_json_file(fixtures_dir() + "/fixtures.json").at("guidance");
  const auto grid = flux2_image_positions(0, inputs.at("height"), inputs.at("width"));
  Step step;
  step.texts = {read_floats(fixtures_, "guidance.encoder_hidden_states")};
  step.image = read_floats(fixtures_, "guidance.hidden_states");
  step.positions = joint(flux2_text_positions(inputs.at("text")), grid);
  step.velocity_tokens = static_cast<std::int64_t>(grid.size());
  step.timestep = inputs.at("timestep");
  step.guidance = inputs.at("guidance").get<float>();
  const auto velocity = velocities(model, step);
  expect_near(velocity[0], read_floats(fixtures_, "guidance.output"), kTolerance, "output");
}

TEST_F(Flux2Parity, OtherHeadSizes) {
  Model model = Model::fixture("micro");
  // The negative prompt is empty in all cases, and the text encoder the same.
  const Step step = first_step(
      micro_fixtures_, "micro",
      {read_floats(micro_fixtures_, "micro.prompt_embeds"), read_floats(fixtures_, "cfg128.negative_prompt_embeds")});
  const auto velocity = velocities(model, step);
  expect_near(velocity[0], read_floats(micro_fixtures_, "micro.step0.velocity_cond"), kTolerance, "velocity_cond");
  expect_near(velocity[1], read_floats(micro_fixtures_, "micro.step0.velocity_uncond"), kTolerance, "velocity_uncond");
}

TEST_F(Flux2Parity, OddPicture) {
  Model model = Model::fixture("micro");
  const Step step = first_step(micro_fixtures_, "micro_odd", {read_floats(micro_fixtures_, "micro_odd.prompt_embeds")});
  const auto velocity = velocities(model, step);
  expect_near(velocity[0], read_floats(micro_fixtures_, "micro_odd.step0.velocity_cond"), kTolerance, "velocity_cond");
}

TEST_F(Flux2Parity, PlaceholdersAreNamed) {
  Model model = Model::fixture("micro");
  const Step step = first_step(micro_fixtures_, "micro_odd", {read_floats(micro_fixtures_, "micro_odd.prompt_embeds")});
  Arena measuring;
  const StepOnDevice on_device(model.transformer, step, measuring);
  ops::OpContext planning = ops::OpContext::planning(run_.stream());
  const auto expect_named = [&](std::size_t unit, const std::string& parameter) {
    try {
      on_device.branch(0).run_unit(unit, planning);
      ADD_FAILURE() << "unit " << unit << " ran without " << parameter;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
      EXPECT_NE(error.message().find(parameter + " "), std::string::npos) << error.message();
    }
  };
  expect_named(1, "transformer_blocks.1.attn.add_qkv_proj.weight");
  expect_named(3, "single_transformer_blocks.1.attn.to_qkv_mlp_proj.weight");
}

TEST(Flux2Plan, UnitsAreTheBlocksInOrder) {
  const Model model = Model::tiny_shapes();
  const OffloadPlan& plan = model.transformer.plan();
  EXPECT_EQ(plan.component, "transformer");
  ASSERT_EQ(plan.lists.size(), 2U);
  EXPECT_TRUE(plan.lists[0].resident_eligible && plan.lists[1].resident_eligible);
  ASSERT_EQ(plan.stacks.size(), 1U);
  EXPECT_EQ(plan.stacks[0].name, "step");
  EXPECT_EQ(plan.stacks[0].phase, Phase::step);
  const std::vector<StreamUnit>& units = plan.stacks[0].units;
  ASSERT_EQ(units.size(), 16U);
  for (std::size_t i = 0; i < units.size(); ++i) {
    EXPECT_EQ(units[i].list, i < 4 ? 0U : 1U);
    EXPECT_EQ(units[i].block,
              i < 4 ? "transformer_blocks." + std::to_string(i) : "single_transformer_blocks." + std::to_string(i - 4));
    // 26 D² and 13 D² matrices of width 160, and norms of 32; bf16.
    EXPECT_EQ(weight_bytes(units[i].groups), i < 4 ? 2U * (26 * 160 * 160 + 4 * 32) : 2U * (13 * 160 * 160 + 2 * 32));
  }
}

TEST(Flux2Plan, NamesEveryTensorOfTheCheckpoint) {
  for (const Model& model : {Model::tiny_shapes(), Model::fixture("guidance"), Model::fixture("micro")}) {
    std::vector<TensorSpec> members;
    for (const ParameterGroup& group : test::all_groups(model.transformer.plan()))
      members.insert(members.end(), group.members.begin(), group.members.end());
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    EXPECT_EQ(members, model.checkpoint.tensors());
  }
}

TEST(Flux2Plan, RefusesWeightsOfOtherTypes) {
  const Flux2Config config = Flux2Config::read(ConfigReader::read(fixtures_dir() + "/micro_config.json"));
  try {
    const Flux2Transformer transformer(config, [](std::string_view name) {
      return name == "transformer_blocks.1.attn.to_k.weight" ? DType::f16 : DType::bf16;
    });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_NE(error.message().find("transformer_blocks.1.attn.to_k.weight"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace lamina
