// The released models as data: their sizes against the published ones, and their traversals on the virtual clock.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "offload/model_topologies.h"
#include "offload/timing_model.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

using namespace topologies;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

const Stack& stack_of(const OffloadPlan& plan, const std::string& name) {
  for (const Stack& stack : plan.stacks)
    if (stack.name == name) return stack;
  throw std::out_of_range("no stack " + name);
}

std::size_t parameter_count(const std::vector<ParameterGroup>& groups) {
  std::size_t count = 0;
  for (const ParameterGroup& group : groups) count += static_cast<std::size_t>(group.runtime.shape.elements());
  return count;
}

std::size_t parameter_count(const Stack& stack) {
  std::size_t count = 0;
  for (const StreamUnit& unit : stack.units) count += parameter_count(unit.groups);
  return count;
}

std::size_t stack_bytes(const Stack& stack) {
  std::size_t size = 0;
  for (const StreamUnit& unit : stack.units) size += weight_bytes(unit.groups);
  return size;
}

/// Bytes of each unit, equal ones told once: "5 x 490734592, 20 x 245367296".
std::string unit_sizes(const Stack& stack) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (const StreamUnit& unit : stack.units) {
    const std::size_t size = weight_bytes(unit.groups);
    if (runs.empty() || runs.back().second != size) runs.push_back({0, size});
    ++runs.back().first;
  }
  std::string text;
  for (const auto& [count, size] : runs) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, size);
  return text;
}

std::string gibibytes(std::size_t size) {
  return fmt::format("{:.1f} GiB", static_cast<double>(size) / kGibibyte);
}

std::vector<OffloadPlan> all_plans() {
  return {flux2(kKlein4B),
          flux2(kKlein9B),
          flux2(kFlux2Dev),
          minimax_h3(),
          cosmos3(kCosmos3Nano),
          cosmos3(kCosmos3Super),
          wan(kWan1_3B),
          wan(kWan14B),
          wan(kWan14BImageToVideo),
          wan(kWan5B),
          wan_two_experts(kWan14B),
          qwen3_text_encoder(kQwen3Text4B),
          qwen3_text_encoder(kQwen3Text8B),
          qwen3_text_encoder(kQwen3VLText32B)};
}

TEST(Topology, PlansAreValid) {
  for (const OffloadPlan& plan : all_plans()) EXPECT_NO_THROW(plan.validate());
}

TEST(Topology, NoStreamedUnitNeedsPadding) {
  for (const OffloadPlan& plan : all_plans())
    for (const Stack& stack : plan.stacks)
      for (const StreamUnit& unit : stack.units)
        ASSERT_EQ(UnitLayout::of(unit.groups).size_bytes, weight_bytes(unit.groups)) << unit.block;
}

TEST(Topology, Flux2) {
  const auto expect_sizes = [](const Flux2Dims& dims, const std::string& units, std::size_t outside,
                               std::size_t total) {
    const OffloadPlan plan = flux2(dims);
    EXPECT_EQ(unit_sizes(stack_of(plan, "step")), units);
    EXPECT_EQ(weight_bytes(plan.outside), outside);
    EXPECT_EQ(stack_bytes(stack_of(plan, "step")) + outside, total);
  };
  expect_sizes(kKlein4B, "5 x 490734592, 20 x 245367296", 390'070'272, 7'751'089'152);
  expect_sizes(kKlein9B, "8 x 872416256, 24 x 436208128", 708'837'376, 18'157'162'496);
  expect_sizes(kFlux2Dev, "8 x 1962935296, 48 x 981467648", 1'632'632'832, 64'446'562'304);
}

TEST(Topology, Flux2HasTheTensorsOfTheCheckpoint) {
  const OffloadPlan plan = flux2(kKlein4B);
  std::set<std::string> names;
  for (const ParameterGroup& group : plan.outside)
    for (const TensorSpec& member : group.members) names.insert(member.name);
  for (const StreamUnit& unit : plan.stacks[0].units)
    for (const ParameterGroup& group : unit.groups)
      for (const TensorSpec& member : group.members) names.insert(member.name);
  EXPECT_EQ(names.size(), 169u);
  for (const char* name :
       {"transformer_blocks.4.attn.add_k_proj.weight", "transformer_blocks.0.ff_context.linear_in.weight",
        "single_transformer_blocks.19.attn.to_qkv_mlp_proj.weight", "norm_out.linear.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Topology, Qwen3TextEncoders) {
  constexpr std::size_t kVocabulary = 151936;
  const auto expect_sizes = [](const Qwen3Dims& dims, const std::string& units, std::size_t with_embedding) {
    const OffloadPlan plan = qwen3_text_encoder(dims);
    const Stack& prompt = stack_of(plan, "prompt");
    EXPECT_EQ(prompt.phase, Phase::prompt);
    EXPECT_EQ(unit_sizes(prompt), units);
    EXPECT_EQ(stack_bytes(prompt) + 2 * kVocabulary * static_cast<std::size_t>(dims.hidden), with_embedding);
  };
  expect_sizes(kQwen3Text4B, "27 x 201861632", 6'228'176'384);
  expect_sizes(kQwen3Text8B, "27 x 385892864", 11'663'767'040);
  expect_sizes(kQwen3VLText32B, "50 x 975196672", 50 * std::size_t{975'196'672} + 1'555'824'640);
}

TEST(Topology, MiniMaxH3StreamsNoAdaLnInASteps) {
  const OffloadPlan plan = minimax_h3();
  const Stack& step = stack_of(plan, "step");
  const Stack& schedule = stack_of(plan, "schedule");
  const Stack& prompt = stack_of(plan, "prompt");
  EXPECT_EQ(schedule.phase, Phase::schedule);
  EXPECT_EQ(prompt.phase, Phase::prompt);
  EXPECT_EQ(unit_sizes(step), "50 x 770725376");
  EXPECT_EQ(unit_sizes(schedule), "50 x 520418304");
  EXPECT_EQ(unit_sizes(prompt), "2 x 770725376");
  EXPECT_EQ(gibibytes(stack_bytes(step)), "35.9 GiB");
  EXPECT_EQ(gibibytes(stack_bytes(step) + stack_bytes(schedule)), "60.1 GiB");
  const std::size_t outside = weight_bytes(plan.outside);
  EXPECT_EQ(outside, 55'060'992u + 57'835'008 + 63'340'032 + 5'548'544 + 10'752);
  EXPECT_EQ(stack_bytes(step) + stack_bytes(schedule) + stack_bytes(prompt) + outside, 66'280'430'080u);
}

TEST(Topology, Cosmos3StreamsHalfTheModel) {
  // Left out: both vocabulary tables, the understanding half's final norm, and of its last layer all but what keys and
  // values need.
  const auto expect_sizes = [](const Cosmos3Dims& dims, std::size_t half, std::size_t last, std::size_t parameters,
                               std::size_t table_bytes, const char* per_step) {
    const OffloadPlan plan = cosmos3(dims);
    const Stack& step = stack_of(plan, "step");
    const Stack& prompt = stack_of(plan, "prompt");
    EXPECT_EQ(unit_sizes(step), fmt::format("{} x {}", dims.layers, half));
    EXPECT_EQ(unit_sizes(prompt), fmt::format("{} x {}, 1 x {}", dims.layers - 1, half, last));
    EXPECT_EQ(gibibytes(stack_bytes(step)), per_step);
    const std::size_t left_out = table_bytes + static_cast<std::size_t>(dims.hidden) + (half - last) / 2;
    EXPECT_EQ(parameter_count(step) + parameter_count(prompt) + parameter_count(plan.outside) + left_out, parameters);
  };
  expect_sizes(kCosmos3Nano, 385'892'864, 2 * (4096 + 2 * 1024 * 4096 + 128), 15'173'669'120, 1'244'659'712,
               "12.9 GiB");
  expect_sizes(kCosmos3Super, 975'196'672, 2 * (5120 + 2 * 1024 * 5120 + 128), 64'019'736'832, 1'555'824'640,
               "58.1 GiB");
}

TEST(Topology, Wan) {
  const auto expect_sizes = [](const WanDims& dims, std::size_t block_parameters, std::size_t parameters) {
    const OffloadPlan plan = wan(dims);
    const std::size_t width = static_cast<std::size_t>(dims.heads) * 128;
    const Stack& step = stack_of(plan, "step");
    const Stack& prompt = stack_of(plan, "prompt");
    ASSERT_EQ(step.units.size(), dims.blocks);
    ASSERT_EQ(prompt.units.size(), dims.blocks);
    const std::size_t streamed = parameter_count(step.units[0].groups);
    EXPECT_EQ(streamed + parameter_count(prompt.units[0].groups), block_parameters);
    EXPECT_EQ(dims.blocks * block_parameters + parameter_count(plan.outside), parameters);
    // The table and the norm before cross-attention, 8 x width, are kept in f32.
    EXPECT_EQ(weight_bytes(step.units[0].groups), 2 * streamed + 2 * 8 * width);
  };
  expect_sizes(kWan1_3B, 46'440'704, 1'418'996'800);
  expect_sizes(kWan14B, 351'394'304, 14'288'491'584);
  expect_sizes(kWan14BImageToVideo, 403'838'464, 16'394'878'784);
  expect_sizes({40, 40, 13824, 36, 16, false}, 351'394'304, 14'288'901'184);  // an expert of 2.2 image to video
  expect_sizes(kWan5B, 163'656'704, 4'999'787'712);
}

TEST(Topology, Wan14BStreamsNoCrossKeysInAStep) {
  const OffloadPlan plan = wan(kWan14B);
  EXPECT_EQ(unit_sizes(stack_of(plan, "prompt")), "40 x 104888320");
  EXPECT_EQ(gibibytes(stack_bytes(stack_of(plan, "step"))), "22.3 GiB");
  EXPECT_EQ(gibibytes(stack_bytes(stack_of(plan, "step")) + stack_bytes(stack_of(plan, "prompt"))), "26.2 GiB");
}

TEST(Topology, WanExpertsAreStacksOfTheirOwn) {
  const OffloadPlan one = wan(kWan14B);
  const OffloadPlan two = wan_two_experts(kWan14B);
  ASSERT_EQ(two.stacks.size(), 4u);
  for (const char* expert : {"_high_noise", "_low_noise"})
    for (const std::string stack : {"prompt", "step"})
      EXPECT_EQ(unit_sizes(stack_of(two, stack + expert)), unit_sizes(stack_of(one, stack)));
  EXPECT_EQ(weight_bytes(two.outside), 2 * weight_bytes(one.outside));
}

/// A stack on the virtual clock.
struct Traversal {
  Stack stack;
  double unit_compute_ms = 0;
  double link_gb_per_second = 25;
  std::size_t slots = 2;
  std::size_t passes = 4;
  std::optional<GatherCost> gather{};
};

TimingInputs inputs_of(const Traversal& traversal) {
  TimingInputs inputs;
  inputs.passes = traversal.passes;
  inputs.link_bytes_per_second = traversal.link_gb_per_second * 1e9;
  inputs.gather = traversal.gather;
  for (const StreamUnit& unit : traversal.stack.units) {
    const auto compute =
        duration_cast<nanoseconds>(std::chrono::duration<double, std::milli>(traversal.unit_compute_ms));
    inputs.units.push_back({UnitLayout::of(unit.groups).size_bytes, compute, false});
    inputs.ring_bytes = std::max(inputs.ring_bytes, traversal.slots * inputs.units.back().image_bytes);
  }
  return inputs;
}

double milliseconds(nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double steady_pass_ms(const Traversal& traversal) {
  return milliseconds(predict_timing(inputs_of(traversal)).steady_pass);
}

struct FloorCase {
  const char* name;
  Stack stack;
  double unit_compute_ms;
  double link_gb_per_second;
  double compute_ms;  ///< of a pass
  double link_ms;
};

/// Compute times: FLOP of a block at 400 TFLOP/s; for the last two, a whole pass of klein-4B in 52.4 and 32 ms.
std::vector<FloorCase> floor_cases() {
  const Stack klein4b = stack_of(flux2(kKlein4B), "step");
  return {{"klein-4B 1024x1024", klein4b, 3.5, 25, 87.5, 294.44},
          {"klein-9B 1024x1024", stack_of(flux2(kKlein9B), "step"), 5.9, 25, 188.8, 697.93},
          {"FLUX.2-dev 1024x1024", stack_of(flux2(kFlux2Dev), "step"), 12.6, 25, 705.6, 2512.56},
          {"MiniMax-H3 768x1344x124", stack_of(minimax_h3(), "step"), 175, 25, 8750, 1541.45},
          {"Cosmos3-Nano 720p x 189", stack_of(cosmos3(kCosmos3Nano), "step"), 122, 25, 4392, 555.69},
          {"Cosmos3-Super 720p x 189", stack_of(cosmos3(kCosmos3Super), "step"), 267, 25, 17088, 2496.50},
          {"Wan 14B 480x832x81", stack_of(wan(kWan14B), "step"), 104, 25, 4160, 956.77},
          {"Wan 5B 704x1280x121", stack_of(wan(kWan5B), "step"), 45, 25, 1350, 347.51},
          {"klein-4B 1024x1024, fast link", klein4b, 52.4 / 25, 55.5, 52.4, 132.63},
          {"klein-4B 1024x1024, fast link and compute", klein4b, 32.0 / 25, 55.5, 32, 132.63}};
}

TEST(TopologyTiming, SteadyPassesCostTheLargerOfComputeAndLink) {
  for (const FloorCase& floor : floor_cases()) {
    const double pass_ms = steady_pass_ms({floor.stack, floor.unit_compute_ms, floor.link_gb_per_second});
    const double link_ms = static_cast<double>(stack_bytes(floor.stack)) / floor.link_gb_per_second / 1e6;
    EXPECT_NEAR(link_ms, floor.link_ms, 0.01) << floor.name;
    const double expected_ms = std::max(floor.compute_ms, floor.link_ms);
    EXPECT_GE(pass_ms, 0.999 * expected_ms) << floor.name;
    EXPECT_LE(pass_ms, 1.02 * expected_ms) << floor.name;
  }
}

TEST(TopologyTiming, ASingleSlotCostsTheSum) {
  const Stack step = stack_of(minimax_h3(), "step");
  EXPECT_NEAR(steady_pass_ms({.stack = step, .unit_compute_ms = 175, .slots = 1}), 8750 + 1541.45, 0.1);
}

TEST(TopologyTiming, TextEncoderTakesOneTurnOverTheLink) {
  // 512 tokens: 103 GFLOP a layer, 0.26 ms at 400 TFLOP/s.
  const TimingPrediction prediction = predict_timing(
      inputs_of({.stack = stack_of(qwen3_text_encoder(kQwen3Text4B), "prompt"), .unit_compute_ms = 0.26, .passes = 1}));
  EXPECT_NEAR(milliseconds(prediction.total), 27 * 201'861'632.0 / 25e6 + 0.26, 0.001);
}

TEST(TopologyTiming, SwitchingExpertsStallsNobody) {
  // The end of one expert prefetches the head of the other: a traversal of both waits for the very first unit only.
  const OffloadPlan plan = wan_two_experts(kWan14B);
  Stack both = stack_of(plan, "step_high_noise");
  for (const StreamUnit& unit : stack_of(plan, "step_low_noise").units) both.units.push_back(unit);
  const TimingPrediction prediction = predict_timing(inputs_of({.stack = both, .unit_compute_ms = 104, .passes = 1}));
  EXPECT_EQ(prediction.stall, transfer_time(weight_bytes(both.units[0].groups), 25e9));
}

TEST(TopologyTiming, Flux2NearItsBalanceWantsMoreThanTwoSlots) {
  // klein-4B on four ranks: a pass is 87.5 ms of compute and 73.6 ms of link. A double block takes as long as a single
  // one and has twice the bytes, so the link falls behind in the double blocks (4.9 ms of copy to 3.5 of compute) and
  // can only make up for it by running ahead in the single ones, as far as the ring is deep.
  Traversal traversal{.stack = stack_of(flux2(kKlein4B), "step"), .unit_compute_ms = 3.5};
  traversal.gather = GatherCost{4, 200e9};
  const auto overhead_with = [&](std::size_t slots) {
    traversal.slots = slots;
    return steady_pass_ms(traversal) / 87.5 - 1;
  };
  EXPECT_GT(overhead_with(2), 0.05);
  EXPECT_LT(overhead_with(2), 0.15);
  EXPECT_LT(overhead_with(4), 0.02);
}

}  // namespace
}  // namespace lamina
