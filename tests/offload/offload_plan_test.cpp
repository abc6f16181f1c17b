#include "offload/offload_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lamina/error.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TensorSpec tensor(const std::string& name, const Shape& shape, DType dtype = DType::bf16) {
  return {name, dtype, shape};
}

/// A plan of two blocks, each with a step and a schedule unit.
OffloadPlan two_block_plan() {
  OffloadPlan plan{"transformer", {{"blocks"}}, {{"step", Phase::step, {}}, {"schedule", Phase::schedule, {}}}, {}};
  for (const std::string block : {"blocks.0", "blocks.1"}) {
    plan.stacks[0].units.push_back(
        {block,
         "attention",
         0,
         {ParameterGroup::fused(block + ".kv", {tensor(block + ".k", {2, 4}), tensor(block + ".v", {3, 4})}),
          ParameterGroup::single(tensor(block + ".norm", {4}))}});
    plan.stacks[1].units.push_back({block, "adaln", 0, {ParameterGroup::single(tensor(block + ".adaln", {4, 4}))}});
  }
  plan.outside.push_back(ParameterGroup::single(tensor("embedder", {7, 4})));
  return plan;
}

void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), std::string(to_string(code)));
    EXPECT_THAT(error.message(), HasSubstr(text));
  }
}

TEST(ParameterGroup, OfOneTensorKeepsNameAndShape) {
  const auto group = ParameterGroup::single(tensor("norm.weight", {1, 6, 8}, DType::f32));
  EXPECT_EQ(group.runtime, tensor("norm.weight", {1, 6, 8}, DType::f32));
  EXPECT_THAT(group.members, ElementsAre(group.runtime));
  EXPECT_EQ(weight_bytes(group), 192u);
}

TEST(ParameterGroup, OfARankKeepsItsPartsAdjacent) {
  const auto whole = ParameterGroup::fused("qkv", {tensor("q", {8, 5}), tensor("k", {2, 5})});
  const auto part = whole.sliced([](const TensorSpec& stored) {
    return TensorSlice(stored, {ShardRule::Cut::rows, {stored.shape[0]}}, {.degree = 2, .rank = 1});
  });
  EXPECT_EQ(part.runtime, tensor("qkv", {5, 5}));
  EXPECT_THAT(part.members, ElementsAre(tensor("q", {4, 5}), tensor("k", {1, 5})));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(whole.stored(i), whole.members[i]);
    EXPECT_EQ(part.stored(i), whole.members[i]);
  }
}

TEST(ParameterGroup, FusesRowsInOrder) {
  const auto group = ParameterGroup::fused("qkv", {tensor("q", {8, 5}), tensor("k", {2, 5}), tensor("v", {3, 5})});
  EXPECT_EQ(group.runtime, tensor("qkv", {13, 5}));
  EXPECT_EQ(weight_bytes(group), 130u);
}

TEST(ParameterGroup, RefusesToFuseWhatDoesNotFit) {
  const auto fuse = [](const TensorSpec& second) {
    return [second] { ParameterGroup::fused("qk", {tensor("q", {8, 5}), second}); };
  };
  expect_error(ErrorCode::incompatible, "qk of q BF16 [8, 5], k F32 [8, 5]", fuse(tensor("k", {8, 5}, DType::f32)));
  expect_error(ErrorCode::incompatible, "k BF16 [8, 6]", fuse(tensor("k", {8, 6})));
  expect_error(ErrorCode::incompatible, "k BF16 [8]", fuse(tensor("k", {8})));
  expect_error(ErrorCode::incompatible, "k BF16 [9223372036854775807, 5]",
               fuse(tensor("k", {std::numeric_limits<std::int64_t>::max(), 5})));
}

TEST(WeightBytes, RefusesSizesBeyond64Bits) {
  expect_error(ErrorCode::incompatible, "wide", [] {
    weight_bytes({ParameterGroup::single(tensor("wide", {kHuge, kHuge}))});
  });
  const auto large = ParameterGroup::single(tensor("large", {kHuge, 1 << 22}));  // 2^63 bytes
  EXPECT_EQ(weight_bytes(large), std::size_t{1} << 63);
  expect_error(ErrorCode::incompatible, "large", [&] { weight_bytes({large, large}); });
  expect_error(ErrorCode::incompatible, "large", [&] { UnitLayout::of({large, large}); });
}

TEST(OffloadPlan, AcceptsSplitBlocks) {
  EXPECT_NO_THROW(two_block_plan().validate());
}

TEST(OffloadPlan, NamesItsFirstFault) {
  const auto expect_fault = [](const std::string& text, const std::function<void(OffloadPlan&)>& spoil) {
    OffloadPlan plan = two_block_plan();
    spoil(plan);
    expect_error(ErrorCode::internal, "offload plan of transformer: " + text, [&] { plan.validate(); });
  };
  expect_fault("block list 'blocks' appears twice", [](OffloadPlan& plan) { plan.lists.push_back({"blocks"}); });
  expect_fault("stack 'step' appears twice", [](OffloadPlan& plan) { plan.stacks[1].name = "step"; });
  expect_fault("stack 'schedule' has no units", [](OffloadPlan& plan) { plan.stacks[1].units.clear(); });
  expect_fault("unit 'blocks.1 / adaln' appears twice",
               [](OffloadPlan& plan) { plan.stacks[1].units[0].block = "blocks.1"; });
  expect_fault("unit 'blocks.1 / adaln' names list 1 of 1",
               [](OffloadPlan& plan) { plan.stacks[1].units[1].list = 1; });
  expect_fault("unit 'blocks.0 / adaln' has no weights",
               [](OffloadPlan& plan) { plan.stacks[1].units[0].groups.clear(); });
  expect_fault("parameter 'embedder' appears twice",
               [](OffloadPlan& plan) { plan.outside.push_back(plan.outside[0]); });
  expect_fault("tensor 'blocks.0.k' appears twice", [](OffloadPlan& plan) {
    plan.outside[0] = ParameterGroup{tensor("embedder", {2, 4}), {tensor("blocks.0.k", {2, 4})}};
  });
  expect_fault("parameter embedder BF16 [8, 4] is not made up by its members (embedder BF16 [7, 4])",
               [](OffloadPlan& plan) {
                 plan.outside[0].runtime.shape = {8, 4};
               });
  expect_fault("parameter embedder F32 [7, 4]", [](OffloadPlan& plan) { plan.outside[0].runtime.dtype = DType::f32; });
  expect_fault("parameter embedder BF16 [7, 4] is not made up by its members ()",
               [](OffloadPlan& plan) { plan.outside[0].members.clear(); });
}

TEST(Phase, HasNames) {
  EXPECT_EQ(to_string(Phase::step), "step");
  EXPECT_EQ(to_string(Phase::prompt), "prompt");
  EXPECT_EQ(to_string(Phase::schedule), "schedule");
}

TEST(UnitLayout, AlignsGroupsAndPadsTheImage) {
  const UnitLayout layout =
      UnitLayout::of({ParameterGroup::fused("kv", {tensor("k", {3, 5}), tensor("v", {4, 5})}),  // 70 bytes
                      ParameterGroup::single(tensor("matrix", {16, 8})),                        // 256
                      ParameterGroup::single(tensor("table", {65}, DType::f32)),                // 260
                      ParameterGroup::single(tensor("scalar", {}))});                           // 2
  EXPECT_THAT(layout.group_offsets, ElementsAre(0u, 256u, 512u, 1024u));
  EXPECT_EQ(layout.size_bytes, 1280u);
}

TEST(UnitLayout, OfNothingIsEmpty) {
  EXPECT_EQ(UnitLayout::of({}).size_bytes, 0u);
  EXPECT_TRUE(UnitLayout::of({}).group_offsets.empty());
}

}  // namespace
}  // namespace lamina
