#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_stream.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {
namespace {

constexpr int kRuns = 20;
constexpr int kExitCodeOfThreadSanitizer = 66;
constexpr std::size_t kSlotBytes = 4096;

enum class Missing { nothing, ready, free };

/// A program that streams units A, B, A through two slots, in work that ThreadSanitizer cannot look into, as that of an
/// uninstrumented library. The copy of B is slow, so that compute blocks on it between its use of A and the next copy
/// of A: meeting there must not count as order.
[[noreturn]] void stream_units(Missing missing) {
  {
    CpuDeviceOptions options;
    options.faults.delay = [](std::string_view, std::string_view work) {
      return std::chrono::milliseconds(work == "copy B" ? 5 : 0);
    };
    const auto device = create_cpu_device(options);
    const DeviceBuffer ring = device->allocate(2 * kSlotBytes, "ring");
    const auto copy = device->create_stream("copy");
    const auto compute = device->create_stream("compute");
    const auto ready = device->create_event("ready");
    const auto free = device->create_event("free");
    const auto fetch = [&](std::string_view name, std::size_t slot) {
      cpu::launch(*copy, {name, {}, {{ring.data() + slot * kSlotBytes, kSlotBytes}}}, [] {});
      copy->record(*ready);
    };
    const auto use = [&](std::size_t slot) {
      if (missing != Missing::ready) compute->wait(*ready);
      cpu::launch(*compute, {"use", {{ring.data() + slot * kSlotBytes + 100, 8}}, {}}, [] {});
    };
    fetch("copy A", 0);
    use(0);
    compute->record(*free);
    fetch("copy B", 1);
    use(1);
    if (missing != Missing::free) copy->wait(*free);
    fetch("copy A", 0);
    use(0);
    compute->synchronize();
    copy->synchronize();
  }
  std::exit(0);
}

class PlantedRace : public ::testing::Test {
 protected:
  PlantedRace() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(PlantedRace, OfAMissingReadyWaitIsSeenEveryTime) {
  for (int run = 0; run < kRuns; ++run)
    EXPECT_EXIT(stream_units(Missing::ready), ::testing::ExitedWithCode(kExitCodeOfThreadSanitizer), "data race");
}

TEST_F(PlantedRace, OfAMissingFreeWaitIsSeenEveryTime) {
  for (int run = 0; run < kRuns; ++run)
    EXPECT_EXIT(stream_units(Missing::free), ::testing::ExitedWithCode(kExitCodeOfThreadSanitizer), "data race");
}

TEST_F(PlantedRace, IsGoneWithAllWaits) {
  for (int run = 0; run < kRuns; ++run) EXPECT_EXIT(stream_units(Missing::nothing), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lamina::testing
