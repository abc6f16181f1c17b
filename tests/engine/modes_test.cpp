#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "base/bytes.h"
#include "engine/engine_fixture.h"
#include "offload/unit_layout.h"

namespace lamina::test {
namespace {

constexpr std::size_t kAll = 1000;

struct Mode {
  const char* name;
  OffloadOptions options;
  bool below_weights;  ///< the denoising peak must stay below the transformer's weights
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

/// Every streamed unit was copied once a visit, by its own bytes, and nothing else was.
void expect_streamed(const StageReport& stage) {
  std::size_t expected = 0;
  for (std::size_t unit = 0; unit < stage.statistics.units[0].size(); ++unit) {
    const UnitStatistics& statistics = stage.statistics.units[0][unit];
    EXPECT_EQ(statistics.visits, stage.passes);
    EXPECT_EQ(statistics.fetches, stage.need.part.resident[0][unit] ? 0 : stage.passes);
    expected += statistics.copied_bytes;
  }
  EXPECT_EQ(stage.statistics.copied_bytes, expected);
  EXPECT_EQ(stage.statistics.demand_fetches + stage.statistics.discarded_fetches, 0U);
}

class Modes : public ::testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(Offload, Modes,
                         ::testing::Values(Mode{"slots2", streamed(2), true}, Mode{"slots1", streamed(1), true},
                                           Mode{"slots3", streamed(3), true}, Mode{"slots_all", streamed(kAll), false},
                                           Mode{"leading5", streamed(2, 5), false},
                                           Mode{"spread5", streamed(2, 5, ResidentPolicy::spread), false},
                                           Mode{"spread5_slots3", streamed(3, 5, ResidentPolicy::spread), false},
                                           Mode{"all_resident_blocks", streamed(2, kAll), false}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(Modes, PictureIsTheResidentOne) {
  const Mode& mode = GetParam();
  const auto generator = make_generator(tiny_shapes(), mode.options);
  expect_same(generator->generate(small_request()));

  const StageReport& denoise = stage_of(*generator, "denoise");
  expect_streamed(denoise);
  expect_streamed(stage_of(*generator, "encode prompt"));
  EXPECT_LE(denoise.memory.peak_bytes, denoise.need.total_bytes());
  const std::size_t weights = denoise.need.part.outside_bytes + denoise.need.part.resident_bytes +
                              denoise.statistics.copied_bytes / denoise.passes;
  if (mode.below_weights) {
    EXPECT_LT(denoise.memory.peak_bytes, weights);
    EXPECT_GT(denoise.statistics.copied_bytes, 0U);
  }
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
    expect_streamed(stage_of(*generator, "denoise"));
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
    for (const char* part : {"stage '", "ring ", "outside blocks ", "activations ", "workspace ", "4.0 MiB allowed"})
      EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
  }
  EXPECT_EQ(generator->device().memory().use().used_bytes, 0U);
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
