#include "base/host_memory_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/captured_log.h"
#include "base/expect_error.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

using testing::CapturedLog;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

void limit_group(const TemporaryFolder& root, const std::string& limit, const std::string& usage) {
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", limit + "\n");
  root.write("sys/fs/cgroup/job/memory.current", usage + "\n");
}

TEST(HostMemoryBudget, TheExplicitLimitRefusesByName) {
  const TemporaryFolder root;
  HostMemoryBudget budget(10 * kMiB, root.path());
  budget.reserve(6 * kMiB, "weights");
  budget.reserve(2 * kMiB, "staging");
  expect_error(ErrorCode::out_of_host_memory,
               {"host memory: 3.0 MiB asked for 'results', 8.0 MiB used (staging 2.0 MiB, weights 6.0 MiB), 10.0 MiB "
                "allowed by --host-memory-limit"},
               [&] { budget.reserve(3 * kMiB, "results"); });
  budget.release(2 * kMiB, "staging");
  budget.reserve(3 * kMiB, "results");
  EXPECT_EQ(budget.use().used_bytes, 9 * kMiB);
  EXPECT_EQ(budget.use().limit_bytes, 10 * kMiB);
}

TEST(HostMemoryBudget, AControlGroupRefusesByItsFile) {
  const TemporaryFolder root;
  limit_group(root, "10485760", "4194304");
  HostMemoryBudget budget(100 * kMiB, root.path());
  const std::vector<MemoryNeed> needs{{"weights", 6 * kMiB}, {"staging", 1}};
  expect_error(ErrorCode::out_of_host_memory,
               {"(weights 6.0 MiB, staging 1 B)", "nothing yet",
                "10.0 MiB allowed by the control group's " + root.path().string() +
                    "/sys/fs/cgroup/job/memory.max, of which 4.0 MiB in use; raise it"},
               [&] { budget.check_fits(needs, "loading", "raise it"); });
  budget.reserve(6 * kMiB, "weights");
  limit_group(root, "max", "4194304");  // raised while the process runs
  budget.reserve(60 * kMiB, "weights");
}

TEST(HostMemoryBudget, AGroupFileThatIsNoneRefusesWithoutBooking) {
  const TemporaryFolder root;
  limit_group(root, "plenty", "0");
  HostMemoryBudget budget(std::nullopt, root.path());
  expect_error(ErrorCode::corrupt, {"job/memory.max", "plenty"}, [&] { budget.reserve(1, "weights"); });
  EXPECT_EQ(budget.use().used_bytes, 0U);
}

TEST(HostMemoryBudget, AvailableMemoryIsWarnedOfOnce) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemAvailable: 4096 kB\n");
  HostMemoryBudget budget(std::nullopt, root.path());
  const CapturedLog log;
  budget.reserve(4 * kMiB, "weights");
  EXPECT_EQ(log.lines(), 0);
  budget.reserve(5 * kMiB, "weights");
  EXPECT_EQ(log.lines(), 1);
  EXPECT_THAT(log.text(), HasSubstr("5.0 MiB of host memory asked for, the system calls 4.0 MiB available"));
  budget.reserve(50 * kMiB, "weights");
  budget.check_fits(std::vector<MemoryNeed>{{"weights", kGiB}}, "loading", "");
  EXPECT_EQ(log.lines(), 1);
}

TEST(HostMemoryBudget, ARefusalIsNotWarnedOfToo) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemAvailable: 1 kB\n");
  HostMemoryBudget budget(kMiB, root.path());
  const CapturedLog log;
  EXPECT_THROW(budget.reserve(2 * kMiB, "weights"), Error);
  EXPECT_EQ(log.lines(), 0);
}

TEST(HostMemoryBudget, ThreadsShareItWithinItsLimit) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemAvailable: 1 kB\n");
  limit_group(root, "1000000", "10");
  HostMemoryBudget budget(3000, root.path());
  const CapturedLog log;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        try {
          budget.reserve(1025, "weights");
          budget.release(1025, "weights");
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.use().used_bytes, 0U);
  EXPECT_LE(budget.use().peak_bytes, 3000U);
  EXPECT_EQ(log.lines(), 1);
}

TEST(ProcessHostMemory, IsOneBudgetWithOneLimitWhileSomebodyHoldsIt) {
  {
    const auto first = process_host_memory(7 * kMiB);
    EXPECT_EQ(process_host_memory(), first);
    EXPECT_EQ(process_host_memory(7 * kMiB), first);
    expect_error(ErrorCode::incompatible, {"8.0 MiB", "already runs with 7.0 MiB"},
                 [] { process_host_memory(8 * kMiB); });
  }
  const auto later = process_host_memory();
  EXPECT_FALSE(later->use().limit_bytes);
  expect_error(ErrorCode::incompatible, {"already runs with none"}, [] { process_host_memory(8 * kMiB); });
}

}  // namespace
}  // namespace lamina
