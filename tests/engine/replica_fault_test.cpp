// Ranks of one replica that fail while they compute a sample together: wherever it happens, all ranks of the group end
// with the reason of the first, and no thread stays behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "engine/engine_fixture.h"
#include "engine/micro_ranks.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

struct ReplicaMode {
  const char* name;
  ParallelSizes sizes;
  bool streams = true;
  bool gathers = false;
};

void PrintTo(const ReplicaMode& mode, std::ostream* out) {
  *out << mode.name;
}

class ReplicaFaults : public ::testing::TestWithParam<ReplicaMode> {
 protected:
  RankedSetup setup() const {
    EngineConfig config = micro_ranks(model_, GetParam().sizes);
    config.enable_distributed_layerwise_offload = GetParam().streams;
    config.dlo_slots = 1;
    config.parallel.dlo_use_allgather = GetParam().gathers;
    std::vector<std::string> notes;
    return ranked_setup(config, notes);
  }

  const ScratchFolder scratch_;
  const std::filesystem::path model_ = micro_transformer(scratch_.path(), 1, 2);
};

INSTANTIATE_TEST_SUITE_P(Micro, ReplicaFaults,
                         ::testing::Values(ReplicaMode{"hsdp2", {.use_hsdp = true, .hsdp_shard = 2}, false},
                                           ReplicaMode{"hsdp2_staged", {.use_hsdp = true, .hsdp_shard = 2}},
                                           ReplicaMode{"tp2", {.tensor = 2}},
                                           ReplicaMode{"tp2_kept", {.tensor = 2}, false},
                                           ReplicaMode{"sp2_gather", {.sequence = 2}, true, true},
                                           ReplicaMode{"sp2_hsdp2", {.sequence = 2, .use_hsdp = true}, false},
                                           ReplicaMode{"sp2_tp2", {.sequence = 2, .tensor = 2}},
                                           ReplicaMode{"dp2_tp2_gather", {.data = 2, .tensor = 2}, true, true}),
                         [](const auto& mode) { return mode.param.name; });

/// The same, with copy number `copy` of one rank refused.
RankedSetup refusing(RankedSetup setup, std::size_t rank, std::uint64_t copy) {
  setup.create_device = [=](std::size_t mine) {
    CpuDeviceOptions options;
    if (mine == rank) options.faults.fail_copy = copy;
    return create_cpu_device(std::move(options));
  };
  return setup;
}

void expect_group_ended(const RankedRun& run, std::size_t rank, const std::string& reason) {
  for (const RankReport& report : run.ranks) {
    ASSERT_TRUE(report.fault);
    EXPECT_EQ(report.fault->rank, rank);
    EXPECT_THAT(report.fault->failure.message, HasSubstr(reason));
  }
  for (const RankedOutcome& outcome : run.outcomes) {
    EXPECT_FALSE(outcome.result);
    ASSERT_TRUE(outcome.failure);
    EXPECT_THAT(outcome.failure->message, HasSubstr(reason));
  }
}

std::size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(tasks, std::filesystem::directory_iterator{}));
}

/// A thread that was joined may be seen a moment longer.
void expect_threads(std::size_t count) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (threads_of_this_process() > count && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_LE(threads_of_this_process(), count);
}

TEST_P(ReplicaFaults, ARefusedCopyAtEveryPlaceEndsAllRanksWithItsReason) {
  const std::vector<GenerateRequest> requests{micro_request(1, 3, 1)};
  const RankedRun whole = run_on_ranks(setup(), requests);
  ASSERT_TRUE(whole.outcomes[0].result) << whole.outcomes[0].failure->message;
  const std::size_t threads = threads_of_this_process();
  for (const std::size_t rank : {std::size_t{0}, whole.ranks.size() - 1}) {
    std::uint64_t copy = 1;
    for (;; ++copy) {
      SCOPED_TRACE("copy " + std::to_string(copy) + " of rank " + std::to_string(rank));
      const RankedRun run = run_on_ranks(refusing(setup(), rank, copy), requests);
      if (!run.ranks[rank].fault) break;  // fewer copies than that
      expect_group_ended(run, rank, "was refused");
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(copy, 4U);
    expect_threads(threads);
  }
}

TEST_P(ReplicaFaults, ARankWithoutADeviceEndsTheOthers) {
  const std::size_t last = setup().topology.world_size() - 1;
  RankedSetup broken = setup();
  broken.create_device = [last, create = broken.create_device](std::size_t rank) {
    if (rank == last) fail(ErrorCode::unavailable, "planted: no such device");
    return create(rank);
  };
  expect_group_ended(run_on_ranks(broken, {micro_request(1, 3, 1)}), last, "planted");
}

TEST_P(ReplicaFaults, AnInterruptionEndsAllRanks) {
  const RankedRun run = run_on_ranks(
      setup(), {micro_request(1, 3, 2)},
      {.passed = [](const RankedProgress&) { fail(ErrorCode::cancelled, "planted: enough"); }, .is_cancelled = {}});
  expect_group_ended(run, 0, "planted");
}

}  // namespace
}  // namespace lamina::test
