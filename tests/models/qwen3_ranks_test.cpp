// The text encoder cut for tensor parallelism, and prompts that ranks encode together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/json.h"
#include "comm/local/local_communicator.h"
#include "comm/local_ranks.h"
#include "models/bind_all.h"
#include "models/qwen3/qwen3_shards.h"
#include "models/qwen3_prompts.h"

namespace lamina::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using testing::expect_error;

constexpr float kTolerance = 2e-4F;
constexpr std::size_t kRanks = 2;  // of 4 heads, 2 key heads and 192 features

TEST(Qwen3Ranks, FindTheRecordedHiddenStates) {
  const Checkpoint fixtures = Checkpoint::open_file(fixtures_dir() + "/fixtures.safetensors");
  const Json cases = read_json_file(fixtures_dir() + "/fixtures.json");
  const std::vector<Ids> prompts{kEmptyPrompt, cases.at("cfg128").at("token_ids").get<Ids>()};
  std::vector<std::vector<std::vector<float>>> states(kRanks);
  const auto errors = run_ranks(kRanks, [&](LocalRank& mine) {
    DeviceRun run;
    Encoder model({kRanks, static_cast<std::int64_t>(mine.rank)});
    const auto lay_out = [&](Arena& arena) {
      return std::make_unique<PromptsOnDevice>(model.encoder, prompts, arena, mine.communicator.get());
    };
    const ExactMemory memory(run, model.encoder.parameters(), lay_out,
                             [](PromptsOnDevice& on_device, ops::OpContext& context) { on_device.run(context); });
    const BoundWeights weights(run.device(), run.stream(), model.checkpoint, model.encoder.plan(),
                               model.encoder.parameters());
    Arena arena = memory.arena();
    ops::OpContext context = memory.context(run);
    const auto on_device = lay_out(arena);
    on_device->upload(run, model.checkpoint.view(model.encoder.embedding()));
    on_device->run(context);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      states[mine.rank].push_back(run.download(on_device->sample(i).hidden_states()));
    memory.expect_used_up(arena, context);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
  EXPECT_EQ(states[0], states[1]);
  expect_near(states[0][0], read_floats(fixtures, "cfg128.negative_prompt_embeds"), kTolerance, "empty prompt");
  expect_near(states[0][1], read_floats(fixtures, "cfg128.prompt_embeds"), kTolerance, "cfg128");
}

/// How a tensor is cut: 0 in rows, 1 in columns, -1 not at all.
int cut_axis(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("norm")) return -1;
  return has("o_proj") || has("down_proj") ? 1 : 0;
}

/// Each element of each tensor is with the rank whose share of the axis it lies in.
TEST(Qwen3Shards, OfAllRanksMakeUpTheCheckpoint) {
  const Encoder whole;
  const Encoder parts[kRanks] = {Encoder({kRanks, 0}), Encoder({kRanks, 1})};
  const std::vector<ParameterGroup> groups = all_groups(whole.encoder.plan());
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const std::vector<ParameterGroup> local = all_groups(parts[rank].encoder.plan());
    ASSERT_EQ(local.size(), groups.size());
    for (std::size_t group = 0; group < groups.size(); ++group)
      for (std::size_t member = 0; member < groups[group].members.size(); ++member) {
        const TensorSpec& stored = groups[group].members[member];
        const int axis = cut_axis(stored.name);
        const ConstTensorView view = whole.checkpoint.view(stored);
        std::vector<std::byte> part(local[group].members[member].size_bytes());
        local[group].slices[member].copy(view, part.data());
        ASSERT_EQ(part.size() * (axis < 0 ? 1 : kRanks), stored.size_bytes()) << stored.name;
        const std::int64_t columns = stored.shape.rank() == 2 ? stored.shape[1] : 1;
        const std::int64_t share_rows = axis == 0 ? stored.shape[0] / 2 : stored.shape[0];
        const std::int64_t share_columns = axis == 1 ? columns / 2 : columns;
        const std::int64_t first_row = axis == 0 ? static_cast<std::int64_t>(rank) * share_rows : 0;
        const std::int64_t first_column = axis == 1 ? static_cast<std::int64_t>(rank) * share_columns : 0;
        const std::size_t row_bytes = static_cast<std::size_t>(share_columns) * size_of(stored.dtype);
        for (std::int64_t row = 0; row < share_rows; ++row)
          ASSERT_EQ(std::memcmp(part.data() + static_cast<std::size_t>(row) * row_bytes,
                                view.data() + static_cast<std::size_t>((first_row + row) * columns + first_column) *
                                                  size_of(stored.dtype),
                                row_bytes),
                    0)
              << stored.name << " row " << row;
      }
  }
}

TEST(Qwen3Shards, HaveOneRuleForEveryTensorAndNoOther) {
  std::map<std::string_view, std::size_t> uses;
  for (const Qwen3ShardEntry& entry : qwen3_shard_table()) uses[entry.suffix] = 0;
  Qwen3Config config = Encoder().encoder.config();
  config.layers = Qwen3Config::kHiddenStates.back();  // so that the final norm is read
  const Qwen3TextEncoder encoder(config, [](std::string_view) { return DType::bf16; });
  for (const ParameterGroup& group : all_groups(encoder.plan()))
    for (const TensorSpec& tensor : group.members)
      for (auto& [suffix, count] : uses)
        if (("." + tensor.name).ends_with("." + std::string(suffix))) ++count;
  for (const auto& [suffix, count] : uses)
    EXPECT_EQ(count, suffix == "norm.weight" ? 1 : encoder.layers().size()) << suffix;
  for (const char* name : {"model.layers.0.self_attn.q_proj.bias", "model.embed_tokens.weight", ""})
    expect_error(ErrorCode::internal, {"0 rules"}, [&] { qwen3_shard_rule(config, name); });
}

TEST(Qwen3TensorParallel, DegreesDivideHeadsKeyHeadsAndFeedForward) {
  Qwen3Config config;
  config.heads = 32;
  config.kv_heads = 8;
  config.intermediate = 9728;
  EXPECT_THAT(qwen3_tensor_parallel_degrees(config), ElementsAre(1, 2, 4, 8));
  config.intermediate = 9730;  // 2 * 5 * 7 * 139
  EXPECT_THAT(qwen3_tensor_parallel_degrees(config), ElementsAre(1, 2));
  for (const std::int64_t degree : {-1, 0, 4, 8, 16})
    expect_error(ErrorCode::incompatible,
                 {"degree " + std::to_string(degree), "32 attention heads", "8 key/value heads", "9730", "are 1, 2"},
                 [&] {
                   check_qwen3_tensor_parallel(config, {degree, 0});
                 });
}

TEST(Qwen3TensorParallel, ARankRunsWithItsGroupOnly) {
  const Encoder model({kRanks, 0});
  Arena arena;
  expect_error(ErrorCode::internal, {"degree 2 in a group of 1"},
               [&] { const Qwen3Activations activations(model.encoder, 8, DType::f32, nullptr, arena); });
}

}  // namespace
}  // namespace lamina::test
