#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>

#include "base/bytes.h"
#include "base/error.h"
#include "engine/engine_fixture.h"
#include "offload/unit_layout.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

constexpr std::size_t kAll = 1000;

struct Mode {
  const char* name;
  OffloadOptions options;
  bool below_weights;                    ///< the denoising peak must stay below the transformer's weights
  std::vector<std::size_t> residents{};  ///< units that must be resident, of 16
};

void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

OffloadOptions streamed(std::size_t slots, std::size_t residents = 0, ResidentPolicy policy = ResidentPolicy::leading) {
  return {.stream = true,
          .ring_slots = slots,
          .resident_blocks = residents,
          .resident_policy = policy,
          .poison_released = true};
}

/// What all modes must reproduce: latents of every step and the picture, of a run with everything resident.
const GenerateResult& resident_result() {
  static const GenerateResult result = make_generator(tiny_shapes(), {})->generate(small_request());
  return result;
}

void expect_same(const GenerateResult& result) {
  const GenerateResult& expected = resident_result();
  EXPECT_EQ(result.picture.rgb, expected.picture.rgb);
  EXPECT_EQ(tensor_of(result, "latents").values, tensor_of(expected, "latents").values);
  EXPECT_EQ(tensor_of(result, "prompt_embeds").values, tensor_of(expected, "prompt_embeds").values);
  EXPECT_EQ(result.settings, expected.settings);
}

/// Every streamed unit was copied once a visit, by the bytes of its own layout, and nothing else was.
void expect_streamed(const StageReport& stage, const Stack& stack) {
  ASSERT_EQ(stage.statistics.units[0].size(), stack.units.size());
  std::size_t expected = 0;
  for (std::size_t unit = 0; unit < stack.units.size(); ++unit) {
    const std::size_t fetches = stage.need.part.resident[0][unit] ? 0 : stage.passes;
    EXPECT_EQ(stage.statistics.units[0][unit].visits, stage.passes);
    EXPECT_EQ(stage.statistics.units[0][unit].fetches, fetches);
    expected += fetches * UnitLayout::of(stack.units[unit].groups).size_bytes;
  }
  EXPECT_EQ(stage.statistics.copied_bytes, expected);
  EXPECT_EQ(stage.statistics.demand_fetches + stage.statistics.discarded_fetches, 0U);
}

std::size_t resident_units(const StageReport& stage) {
  return static_cast<std::size_t>(std::ranges::count(stage.need.part.resident[0], true));
}

/// Counts pieces of work of one name on their way through the device's streams.
struct WorkCounter {
  std::shared_ptr<std::atomic<std::size_t>> count = std::make_shared<std::atomic<std::size_t>>(0);

  CpuDeviceOptions device(std::string_view counted) const {
    CpuDeviceOptions options;
    options.faults.delay = [count = count, counted](std::string_view, std::string_view work) {
      if (work == counted) ++*count;
      return std::chrono::nanoseconds(0);
    };
    return options;
  }
};

class Modes : public ::testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(
    Offload, Modes,
    ::testing::Values(Mode{"slots2", streamed(2), true}, Mode{"slots1", streamed(1), true},
                      Mode{"slots3", streamed(3), true}, Mode{"slots_all", streamed(kAll), false},
                      Mode{"leading5", streamed(2, 5), false, {0, 1, 2, 3, 4}},
                      Mode{"spread5", streamed(2, 5, ResidentPolicy::spread), false, {0, 3, 6, 9, 12}},
                      Mode{"spread5_slots3", streamed(3, 5, ResidentPolicy::spread), false},
                      Mode{"all_resident_blocks", streamed(2, kAll), false}),
    [](const auto& mode) { return mode.param.name; });

TEST_P(Modes, PictureIsTheResidentOne) {
  const Mode& mode = GetParam();
  const WorkCounter poisonings;
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  const OffloadPlan& text = pipeline->parts()[0].plan;
  const OffloadPlan& transformer = pipeline->parts()[1].plan;
  const auto generator = make_generator(tiny_shapes(), mode.options, poisonings.device("poison"));
  expect_same(generator->generate(small_request()));

  const StageReport& denoise = stage_of(*generator, "denoise");
  const StageReport& encode = stage_of(*generator, "encode prompt");
  expect_streamed(denoise, transformer.stacks[0]);
  expect_streamed(encode, text.stacks[0]);
  EXPECT_EQ(*poisonings.count, encode.passes * text.stacks[0].units.size() +
                                   denoise.passes * (transformer.stacks[0].units.size() - resident_units(denoise)));
  EXPECT_EQ(resident_units(denoise), std::min<std::size_t>(mode.options.resident_blocks, 16));
  for (const std::size_t unit : mode.residents) EXPECT_TRUE(denoise.need.part.resident[0][unit]) << unit;
  EXPECT_EQ(denoise.memory.peak_bytes, denoise.need.total_bytes());
  if (mode.below_weights)
    EXPECT_LT(denoise.memory.peak_bytes, weight_bytes(transformer));
  else  // so much is resident, or in the ring, that activations come on top of about all weights
    EXPECT_GT(denoise.need.part.ring_bytes + denoise.need.part.resident_bytes, weight_bytes(transformer) / 3);
}

TEST(ModesUnderDelay, DelaysOnEitherStreamChangeNoByte) {
  for (const std::string_view slow : {"copy", "compute"}) {
    auto random = std::make_shared<std::mt19937>(3);
    auto mutex = std::make_shared<std::mutex>();
    CpuDeviceOptions device;
    device.faults.delay = [=](std::string_view stream, std::string_view) {
      const std::lock_guard lock(*mutex);
      return std::chrono::microseconds(stream == slow ? (*random)() % (slow == "copy" ? 4000 : 300) : 0);
    };
    const auto generator = make_generator(tiny_shapes(), streamed(2), std::move(device));
    expect_same(generator->generate(small_request()));
    EXPECT_EQ(stage_of(*generator, "denoise").statistics.copied_bytes, 2U * 13322240);
  }
}

TEST(ModesOverTime, SecondAndTenthPictureOfOneEngineAreTheFirst) {
  const auto generator = make_generator(tiny_shapes(), streamed(2));
  const std::size_t idle = generator->device().memory().use().used_bytes;
  for (int picture = 1; picture <= 10; ++picture) {
    SCOPED_TRACE(picture);
    expect_same(generator->generate(small_request()));
    EXPECT_EQ(generator->device().memory().use().used_bytes, idle);
  }
}

TEST(ModesMemory, EveryStageStaysWithinItsPlanUnderTheTightestLimit) {
  const auto measured = make_generator(tiny_shapes(), streamed(2));
  measured->generate(small_request());
  std::size_t limit = 0;
  for (const StageReport& stage : measured->stage_reports()) limit = std::max(limit, stage.need.total_bytes());

  const auto tight = make_generator(tiny_shapes(), streamed(2), {.memory_limit_bytes = limit});
  expect_same(tight->generate(small_request()));
  for (const StageReport& stage : tight->stage_reports())
    EXPECT_LE(stage.memory.peak_bytes, stage.need.total_bytes()) << stage.need.stage;

  const auto too_tight = make_generator(tiny_shapes(), streamed(2), {.memory_limit_bytes = limit - 1});
  EXPECT_THROW(too_tight->generate(small_request()), Error);
}

TEST(ModesMemory, WithoutStreamingOtherPartsCountToo) {
  const auto measured = make_generator(tiny_shapes(), {});
  measured->generate(small_request());
  std::size_t limit = 0;
  for (const StageReport& stage : measured->stage_reports()) {
    EXPECT_EQ(stage.memory.peak_bytes, stage.need.total_bytes()) << stage.need.stage;
    limit = std::max(limit, stage.need.total_bytes());
  }
  expect_same(make_generator(tiny_shapes(), {}, {.memory_limit_bytes = limit})->generate(small_request()));
  const auto too_tight = make_generator(tiny_shapes(), {}, {.memory_limit_bytes = limit - 1});
  try {
    too_tight->generate(small_request());
    FAIL() << "ran with a byte less than needed";
  } catch (const Error& error) {
    EXPECT_EQ(error.message().substr(0, 6), "stage ") << "refused while running, not before: " << error.message();
  }
}

TEST(ModesMemory, TextEncoderIsGoneBeforeDenoising) {
  const auto generator = make_generator(tiny_shapes(), streamed(2));
  generator->generate(small_request());
  const StageReport& denoise = stage_of(*generator, "denoise");
  std::size_t parts = 0;
  for (const MemoryPart& part : denoise.memory.parts) parts += part.at_peak_bytes;
  EXPECT_EQ(parts, denoise.memory.peak_bytes);
  EXPECT_EQ(denoise.memory.peak_bytes, denoise.need.total_bytes());
}

TEST(ModesMemory, ALimitThatCannotWorkNamesTheParts) {
  const auto generator = make_generator(tiny_shapes(), streamed(2), {.memory_limit_bytes = 4 * kMiB});
  try {
    generator->generate(small_request());
    FAIL() << "ran within 4 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
    for (const char* part :
         {"stage '", "ring ", "outside blocks ", "activations ", "workspace ", "are allowed, 4.0 MiB"})
      EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
  }
  EXPECT_EQ(generator->device().memory().use().used_bytes, 0U);
}

TEST(ModesMemory, ResidentWeightsThatDoNotFitAreRefusedByComponentWithTheWayOut) {
  try {
    make_generator(tiny_shapes(), {}, {.memory_limit_bytes = 13 * kMiB});
    FAIL() << "18 MiB of weights fit into 13 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
    for (const char* part : {"transformer 13.8 MiB", "text_encoder ", "vae.decoder ", "13.0 MiB allowed",
                             "--enable-distributed-layerwise-offload"})
      EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
  }
}

/// A copy that fails on its stream, when the host has long gone on: the request must not end with a picture.
TEST(ModesFaults, ACopyThatFailsOnItsStreamFailsTheRequest) {
  for (const int failing : {1, 30, 40, 59}) {
    const auto fetches = std::make_shared<std::atomic<int>>(0);
    const auto generator = make_generator(tiny_shapes(), streamed(2));
    CpuFaults faults;
    faults.delay = [=](std::string_view, std::string_view work) {
      if (work == "fetch unit" && ++*fetches == failing) fail(ErrorCode::device, "planted");
      return std::chrono::nanoseconds(0);
    };
    set_cpu_faults(generator->device(), std::move(faults));
    EXPECT_THROW(generator->generate(small_request()), Error) << "fetch " << failing;
    EXPECT_EQ(generator->device().memory().use().used_bytes, 0U);
    set_cpu_faults(generator->device(), {});
    expect_same(generator->generate(small_request()));
  }
}

TEST(ModesFaults, AfterARefusedCopyOrAllocationNothingIsHeldAndTheEngineGoesOn) {
  const auto generator = make_generator(tiny_shapes(), streamed(2));
  for (const std::uint64_t k : {1, 2, 5, 17, 40, 60}) {
    for (const bool copies : {true, false}) {
      if (!copies && k > 5) continue;  // a run makes few allocations
      CpuFaults faults;
      (copies ? faults.fail_copy : faults.fail_allocation) = k;
      set_cpu_faults(generator->device(), std::move(faults));
      EXPECT_THROW(generator->generate(small_request()), Error) << (copies ? "copy " : "allocation ") << k;
      EXPECT_EQ(generator->device().memory().use().used_bytes, 0U);
    }
  }
  set_cpu_faults(generator->device(), {});
  expect_same(generator->generate(small_request()));
}

}  // namespace
}  // namespace lamina::test
