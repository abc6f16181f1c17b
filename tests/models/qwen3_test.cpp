#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "models/bind_all.h"
#include "models/config_refusal.h"
#include "models/device_run.h"
#include "models/qwen3_prompts.h"

namespace lamina {
namespace {

using test::BoundWeights;
using test::config_file;
using test::ConfigRefusal;
using test::DeviceRun;
using test::Encoder;
using test::ExactMemory;
using test::expect_near;
using test::fixtures_dir;
using test::Ids;
using test::kEmptyPrompt;
using test::PromptsOnDevice;
using test::read_floats;

constexpr float kTolerance = 2e-4F;

class Qwen3Parity : public testing::Test {
 protected:
  std::vector<std::vector<float>> encode(const std::vector<Ids>& prompts) {
    Encoder model;
    const auto lay_out = [&](Arena& arena) { return std::make_unique<PromptsOnDevice>(model.encoder, prompts, arena); };
    const ExactMemory memory(run_, model.encoder.parameters(), lay_out,
                             [](PromptsOnDevice& on_device, ops::OpContext& context) { on_device.run(context); });
    const BoundWeights weights(run_.device(), run_.stream(), model.checkpoint, model.encoder.plan(),
                               model.encoder.parameters());
    Arena arena = memory.arena();
    ops::OpContext context = memory.context(run_);
    const auto on_device = lay_out(arena);
    on_device->upload(run_, model.checkpoint.view(model.encoder.embedding()));
    on_device->run(context);
    std::vector<std::vector<float>> result;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      result.push_back(run_.download(on_device->sample(i).hidden_states()));
    memory.expect_used_up(arena, context);
    return result;
  }

  DeviceRun run_;
  Checkpoint fixtures_ = Checkpoint::open_file(fixtures_dir() + "/fixtures.safetensors");
  Json cases_ = read_json_file(fixtures_dir() + "/fixtures.json");
};

TEST_F(Qwen3Parity, HiddenStatesOfAllCases) {
  const std::vector<std::string> cases{"cfg128", "wide", "edit"};
  std::vector<Ids> prompts{kEmptyPrompt};
  for (const std::string& name : cases) prompts.push_back(cases_.at(name).at("token_ids").get<Ids>());
  const auto states = encode(prompts);
  expect_near(states[0], read_floats(fixtures_, "cfg128.negative_prompt_embeds"), kTolerance, "empty prompt");
  for (std::size_t i = 0; i < cases.size(); ++i)
    expect_near(states[i + 1], read_floats(fixtures_, cases[i] + ".prompt_embeds"), kTolerance, cases[i]);
}

TEST_F(Qwen3Parity, PlaceholdersAreNamed) {
  const Encoder model;
  const std::vector<Ids> prompts{kEmptyPrompt};
  Arena measuring;
  PromptsOnDevice on_device(model.encoder, prompts, measuring);
  ops::OpContext planning = ops::OpContext::planning(run_.stream());
  try {
    on_device.run(planning);
    ADD_FAILURE() << "ran without weights";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_NE(error.message().find("model.layers.0.input_layernorm.weight"), std::string::npos) << error.message();
  }
}

TEST(Qwen3Plan, RefusesNormsOfTwoDtypesByName) {
  const auto mixed = [](std::string_view name) {
    return name == "model.layers.3.self_attn.k_norm.weight" ? DType::f32 : DType::bf16;
  };
  try {
    Qwen3TextEncoder(Qwen3Config::read(ConfigReader::read(config_file())), mixed);
    ADD_FAILURE() << "took norms of two dtypes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::incompatible);
    for (const char* part :
         {"model.layers.3.self_attn.q_norm.weight is BF16", "model.layers.3.self_attn.k_norm.weight F32"})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Qwen3Plan, StreamsTheLayersThatAreRead) {
  const Encoder model;
  const OffloadPlan& plan = model.encoder.plan();
  EXPECT_EQ(plan.component, "text_encoder");
  EXPECT_TRUE(plan.outside.empty());
  ASSERT_EQ(plan.stacks.size(), 1U);
  EXPECT_EQ(plan.stacks[0].name, "prompt");
  EXPECT_EQ(plan.stacks[0].phase, Phase::prompt);
  ASSERT_EQ(plan.stacks[0].units.size(), 27U);
  for (std::size_t i = 0; i < 27; ++i) EXPECT_EQ(plan.stacks[0].units[i].block, "model.layers." + std::to_string(i));
}

TEST(Qwen3Plan, AccountsForEveryTensorOfTheCheckpoint) {
  const Encoder model;
  std::vector<TensorSpec> used{model.encoder.embedding()};
  for (const ParameterGroup& group : test::all_groups(model.encoder.plan()))
    used.insert(used.end(), group.members.begin(), group.members.end());
  const std::vector<std::string> unused = model.encoder.unused_tensors();
  const auto is_unused = [&](const std::string& name) {
    return std::any_of(unused.begin(), unused.end(), [&](const std::string& entry) {
      return entry.back() == '.' ? name.compare(0, entry.size(), entry) == 0 : name == entry;
    });
  };
  std::size_t matched = 0;
  for (const TensorSpec& tensor : model.checkpoint.tensors()) {
    const bool is_used = std::find(used.begin(), used.end(), tensor) != used.end();
    EXPECT_NE(is_used, is_unused(tensor.name)) << to_string(tensor);
    if (is_used) ++matched;
  }
  EXPECT_EQ(matched, used.size());
}

TEST(GatherEmbeddings, WidensRowsFromUnalignedBytes) {
  // bf16 of 1, -2, 0.5, 3 behind one odd byte.
  const std::array<unsigned char, 9> bytes{0xAA, 0x80, 0x3F, 0x00, 0xC0, 0x00, 0x3F, 0x40, 0x40};
  const ConstTensorView table(reinterpret_cast<const std::byte*>(bytes.data()) + 1, DType::bf16, {2, 2});
  EXPECT_EQ(gather_embeddings(table, Ids{1, 0, 1}), (std::vector<float>{0.5F, 3, 1, -2, 0.5F, 3}));
}

TEST(GatherEmbeddings, CopiesFloats) {
  const std::array<float, 4> values{1, 2, 3, 4};
  const ConstTensorView table(reinterpret_cast<const std::byte*>(values.data()), DType::f32, {4, 1});
  EXPECT_EQ(gather_embeddings(table, Ids{3, 0}), (std::vector<float>{4, 1}));
}

/// As the bf16 that the model would hold: 1 + 3 * 2^-8 rounds to even.
TEST(GatherEmbeddings, RoundsHalvesAsWeights) {
  const std::array<std::uint16_t, 4> halves{0x3C00, 0x3C0C, 0x0001, 0xC000};
  const ConstTensorView table(reinterpret_cast<const std::byte*>(halves.data()), DType::f16, {2, 2});
  EXPECT_EQ(gather_embeddings(table, Ids{1, 0}), (std::vector<float>{0x1p-24F, -2, 1, 1 + 0x1p-6F}));
}

TEST(GatherEmbeddings, RefusesIdsOutOfRange) {
  const std::array<float, 4> values{1, 2, 3, 4};
  const ConstTensorView table(reinterpret_cast<const std::byte*>(values.data()), DType::f32, {4, 1});
  for (const std::int32_t id : {-1, 4}) {
    try {
      gather_embeddings(table, Ids{0, id});
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::incompatible);
      EXPECT_NE(error.message().find("token id " + std::to_string(id)), std::string::npos) << error.message();
    }
  }
}

TEST(Qwen3Config, ReadsEveryNumber) {
  const Qwen3Config config = Qwen3Config::read(ConfigReader::read(config_file()));
  EXPECT_EQ(config.vocabulary, 408);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.intermediate, 192);
  EXPECT_EQ(config.layers, 28);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.epsilon, 1e-6F);
}

TEST(Qwen3Config, AcceptsOtherSpellings) {
  const auto theta = [](const char* patch) {
    return Qwen3Config::read(test::patched(config_file(), patch)).rope_theta;
  };
  EXPECT_EQ(theta(R"({"rope_parameters": null, "rope_theta": 10000})"), 10000);
  EXPECT_EQ(theta(R"({"rope_parameters": {"rope_theta": null}, "rope_theta": 10000})"), 10000);
  EXPECT_EQ(theta(R"({"rope_theta": 1000000, "rope_scaling": null})"), 1e6);
  EXPECT_EQ(theta(R"({"layer_types": null, "sliding_window": 4096})"), 1e6);
}

class Qwen3ConfigRefusal : public testing::TestWithParam<ConfigRefusal> {};

TEST_P(Qwen3ConfigRefusal, NamesFileFieldAndReason) {
  test::expect_refused<Qwen3Config>(config_file(), GetParam());
}

constexpr ErrorCode kMissing = ErrorCode::not_found;
constexpr ErrorCode kWrong = ErrorCode::incompatible;

INSTANTIATE_TEST_SUITE_P(
    All, Qwen3ConfigRefusal,
    testing::Values(
        ConfigRefusal{"NoVocabulary", R"({"vocab_size": null})", kMissing, "vocab_size", ""},
        ConfigRefusal{"NoHiddenSize", R"({"hidden_size": null})", kMissing, "hidden_size", ""},
        ConfigRefusal{"NoIntermediateSize", R"({"intermediate_size": null})", kMissing, "intermediate_size", ""},
        ConfigRefusal{"TooFewLayers", R"({"num_hidden_layers": 26})", kWrong, "num_hidden_layers", "27"},
        ConfigRefusal{"TooFewPositions", R"({"max_position_embeddings": 511})", kWrong, "max_position_embeddings",
                      "512"},
        ConfigRefusal{"NoHeads", R"({"num_attention_heads": null})", kMissing, "num_attention_heads", ""},
        ConfigRefusal{"KvHeads", R"({"num_key_value_heads": 3})", kWrong, "num_key_value_heads", "3 does not divide 4"},
        ConfigRefusal{"NoHeadDim", R"({"head_dim": null})", kMissing, "head_dim", ""},
        ConfigRefusal{"OddHeadDim", R"({"head_dim": 15})", kWrong, "head_dim", "15 is odd"},
        ConfigRefusal{"NoEpsilon", R"({"rms_norm_eps": null})", kMissing, "rms_norm_eps", ""},
        ConfigRefusal{"NoRopeTheta", R"({"rope_parameters": null})", kMissing, "rope_theta", ""},
        ConfigRefusal{"NegativeRopeTheta", R"({"rope_parameters": {"rope_theta": -1}})", kWrong,
                      "rope_parameters.rope_theta", "-1 is not positive"},
        ConfigRefusal{"TwoRopeThetas", R"({"rope_theta": 10000})", kWrong, "rope_theta", "contradicts"},
        ConfigRefusal{"RopeType", R"({"rope_parameters": {"rope_type": "yarn"}})", kWrong, "rope_parameters.rope_type",
                      "'yarn'"},
        ConfigRefusal{"RopeScaling", R"({"rope_scaling": {"type": "linear", "factor": 2}})", kWrong, "rope_scaling",
                      "not supported"},
        ConfigRefusal{"Activation", R"({"hidden_act": "gelu"})", kWrong, "hidden_act", "'gelu'"},
        ConfigRefusal{"AttentionBias", R"({"attention_bias": true})", kWrong, "attention_bias", "not supported"},
        ConfigRefusal{"SlidingWindow", R"({"use_sliding_window": true})", kWrong, "use_sliding_window",
                      "not supported"},
        ConfigRefusal{"LayerTypes", R"({"layer_types": ["full_attention", "sliding_attention"]})", kWrong,
                      "layer_types", "sliding_attention"},
        ConfigRefusal{"LayerTypesAsText", R"({"layer_types": "full_attention"})", kWrong, "layer_types", "a list"}),
    test::refusal_name);

}  // namespace
}  // namespace lamina
