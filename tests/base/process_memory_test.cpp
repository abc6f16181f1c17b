#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/expect_error.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

constexpr const char* kRollup =
    "55fe00856000-7ffdc58b8000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:                1764 kB\n"
    "Pss:                 185 kB\n"
    "Pss_Dirty:           112 kB\n"
    "Shared_Clean:       1612 kB\n"
    "Shared_Dirty:          4 kB\n"
    "Private_Clean:        40 kB\n"
    "Private_Dirty:       108 kB\n";

TEST(ProcessMemory, ReadsWhatTheKernelCounts) {
  const TemporaryFolder root;
  root.write("proc/self/smaps_rollup", kRollup);
  root.write("proc/self/status", "Name:\tlamina\nVmSize:\t 9 kB\nVmLck:\t      16 kB\nVmPin:\t       8 kB\n");
  const auto memory = read_process_memory(root.path());
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->pss_bytes, 185 * kKiB);
  EXPECT_EQ(memory->private_clean_bytes, 40 * kKiB);
  EXPECT_EQ(memory->private_dirty_bytes, 108 * kKiB);
  EXPECT_EQ(memory->shared_clean_bytes, 1612 * kKiB);
  EXPECT_EQ(memory->shared_dirty_bytes, 4 * kKiB);
  EXPECT_EQ(memory->locked_bytes, 16 * kKiB);
  EXPECT_EQ(memory->pinned_bytes, 8 * kKiB);
}

TEST(ProcessMemory, AbsenceIsNoError) {
  const TemporaryFolder root;
  EXPECT_FALSE(read_process_memory(root.path()));
  EXPECT_FALSE(read_available_memory(root.path()));
  root.write("proc/self/smaps_rollup", kRollup);
  EXPECT_EQ(read_process_memory(root.path())->locked_bytes, 0U) << "no status file";
  root.write("proc/meminfo", "MemTotal:  100 kB\n");
  EXPECT_FALSE(read_available_memory(root.path())) << "an old kernel";
}

TEST(ProcessMemory, MalformedFilesAreNamed) {
  const TemporaryFolder root;
  root.write("proc/self/smaps_rollup", "Pss: 1 kB\nPrivate_Clean: 1 kB\n");
  expect_error(ErrorCode::corrupt, {"proc/self/smaps_rollup", "Private_Dirty", "missing"},
               [&] { read_process_memory(root.path()); });
  for (const std::string value : {"", "12", "kB", "x kB", "-1 kB", "12 MB", "18446744073709551615 kB"}) {
    root.write("proc/meminfo", "MemAvailable: " + value + "\n");
    expect_error(ErrorCode::corrupt, {"proc/meminfo", "MemAvailable", "'" + value + "'"},
                 [&] { read_available_memory(root.path()); });
  }
}

TEST(ProcessMemory, ReadsTheAvailableMemory) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal:       8000 kB\nMemAvailable:    4000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(read_available_memory(root.path()), 4000 * kKiB);
}

TEST(ProcessMemory, SeesAnonymousMemoryComeAndGo) {
  constexpr std::size_t kSize = 32 * kMiB;
  constexpr std::size_t kNoise = 8 * kMiB;  // the heap of this process moves as well
  if (!read_process_memory()) GTEST_SKIP() << "no smaps_rollup on this machine";
  const std::size_t before = read_process_memory()->private_dirty_bytes;
  void* data = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  std::memset(data, 1, kSize);
  EXPECT_GE(read_process_memory()->private_dirty_bytes + kNoise, before + kSize);
  ASSERT_EQ(::munmap(data, kSize), 0);
  EXPECT_LE(read_process_memory()->private_dirty_bytes, before + kNoise);
}

}  // namespace
}  // namespace lamina
