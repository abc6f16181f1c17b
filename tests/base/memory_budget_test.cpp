#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/expect_error.h"

namespace lamina::testing {
namespace {

MemoryPart part(const MemoryUse& use, std::string_view name) {
  for (const MemoryPart& part : use.parts)
    if (part.name == name) return part;
  throw std::logic_error("no such part");
}

TEST(MemoryBudget, TellsWhatEachPartHadWhenTheTotalPeaked) {
  MemoryBudget budget(kDeviceMemory, std::nullopt);
  budget.reserve(100, "ring");
  budget.reserve(50, "activations");
  budget.release(100, "ring");
  budget.reserve(20, "activations");
  budget.reserve(60, "ring");

  const MemoryUse use = budget.use();
  EXPECT_FALSE(use.limit_bytes.has_value());
  EXPECT_EQ(use.used_bytes, 130U);
  EXPECT_EQ(use.peak_bytes, 150U);
  EXPECT_EQ(part(use, "ring").used_bytes, 60U);
  EXPECT_EQ(part(use, "ring").peak_bytes, 100U);
  EXPECT_EQ(part(use, "ring").at_peak_bytes, 100U);
  EXPECT_EQ(part(use, "activations").used_bytes, 70U);
  EXPECT_EQ(part(use, "activations").peak_bytes, 70U);
  EXPECT_EQ(part(use, "activations").at_peak_bytes, 50U);
}

TEST(MemoryBudget, PeaksStartAgainFromWhatIsUsed) {
  MemoryBudget budget(kDeviceMemory, std::nullopt);
  budget.reserve(100, "encoder");
  budget.reserve(30, "ring");
  budget.release(100, "encoder");
  budget.reset_peak();
  EXPECT_EQ(budget.use().peak_bytes, 30U);
  EXPECT_EQ(budget.use().parts.size(), 1U);
  budget.reserve(5, "encoder");
  EXPECT_EQ(budget.use().peak_bytes, 35U);
  EXPECT_EQ(part(budget.use(), "encoder").at_peak_bytes, 5U);
}

TEST(MemoryBudget, ARefusalBooksNothing) {
  MemoryBudget budget(kDeviceMemory, 100);
  budget.reserve(60, "ring");
  expect_error(ErrorCode::out_of_device_memory,
               {"device memory: 41 B asked for 'activations', 60 B used (ring 60 B), 100 B allowed"},
               [&] { budget.reserve(41, "activations"); });
  EXPECT_EQ(budget.use().used_bytes, 60U);
  EXPECT_EQ(budget.use().peak_bytes, 60U);
  EXPECT_EQ(budget.use().parts.size(), 1U);
  budget.reserve(40, "activations");
  EXPECT_EQ(budget.use().used_bytes, 100U);
}

TEST(MemoryBudget, SizesNearTheLargestNumberDoNotWrapAround) {
  MemoryBudget budget(kDeviceMemory, 100);
  budget.reserve(60, "ring");
  for (const std::size_t size : {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 59})
    expect_error(ErrorCode::out_of_device_memory, {"huge"}, [&] { budget.reserve(size, "huge"); });
  const std::vector<MemoryNeed> needs{{"a", std::numeric_limits<std::size_t>::max()}, {"b", 41}};
  expect_error(ErrorCode::out_of_device_memory, {"loading"}, [&] { budget.check_fits(needs, "loading", "advice"); });
}

TEST(MemoryBudget, AFurtherLimitCountsWhatTheSystemSeesOrWhatIsBooked) {
  MemoryBudget budget(kHostMemory, std::nullopt);
  const std::vector<MemoryLimit> roomy{{100, "group", 10}};
  budget.reserve(80, "weights", roomy);  // not touched yet: the system still counts 10
  expect_error(
      ErrorCode::out_of_host_memory,
      {"host memory: 21 B asked for 'staging', 80 B used (weights 80 B), 100 B allowed by group, of which 10 B "
       "in use"},
      [&] { budget.reserve(21, "staging", roomy); });
  const std::vector<MemoryLimit> crowded{{100, "group", 95}};
  expect_error(ErrorCode::out_of_host_memory, {"6 B asked"}, [&] { budget.reserve(6, "staging", crowded); });
  budget.reserve(5, "staging", crowded);
  EXPECT_EQ(budget.use().used_bytes, 85U);
}

TEST(MemoryBudget, TheFirstLimitInTheWayIsNamed) {
  MemoryBudget budget(kHostMemory, 100, "--explicit");
  const std::vector<MemoryLimit> groups{{1000, "outer", 0}, {50, "inner", 0}};
  expect_error(ErrorCode::out_of_host_memory, {"allowed by inner"}, [&] { budget.reserve(51, "weights", groups); });
  expect_error(ErrorCode::out_of_host_memory, {"allowed by --explicit"},
               [&] { budget.reserve(101, "weights", groups); });
  budget.reserve(50, "weights", groups);
}

TEST(MemoryBudget, ACheckOfNeedsBooksNothingAndTellsThemApart) {
  MemoryBudget budget(kHostMemory, 4 * kMiB, "--host-memory-limit");
  budget.reserve(kMiB, "results");
  const std::vector<MemoryNeed> needs{{"weights", 3 * kMiB}, {"staging", kKiB}, {"nothing", 0}};
  expect_error(ErrorCode::out_of_host_memory,
               {"host memory: 3.0 MiB asked for loading (weights 3.0 MiB, staging 1.0 KiB), 1.0 MiB used (results 1.0 "
                "MiB), 4.0 MiB allowed by --host-memory-limit; raise it"},
               [&] { budget.check_fits(needs, "loading", "raise it"); });
  budget.check_fits(std::vector<MemoryNeed>{{"weights", 3 * kMiB}}, "loading", "raise it");
  EXPECT_EQ(budget.use().used_bytes, kMiB);
  EXPECT_EQ(budget.use().peak_bytes, kMiB);
}

TEST(MemoryBudget, ThreadsNeverBookMoreThanTheLimitAndLoseNothing) {
  constexpr std::size_t kLimit = 10;
  MemoryBudget budget(kHostMemory, kLimit);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&budget, part = std::to_string(thread % 2)] {
      for (int round = 0; round < 500; ++round) {
        try {
          budget.reserve(3, part);
          budget.release(3, part);
        } catch (const Error&) {  // the others hold it all just now
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.use().used_bytes, 0U);
  EXPECT_LE(budget.use().peak_bytes, kLimit);
  EXPECT_GE(budget.use().peak_bytes, 3U);
}

}  // namespace
}  // namespace lamina::testing
