#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/atomic_folder.h"
#include "base/file.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// A process that writes an output in `folder` and has not finished when this returns.
template <typename Output>
pid_t start_writer(const fs::path& folder) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const Output output(folder / "output");
    static_cast<void>(::write(ready[1], "x", 1));
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  static_cast<void>(::read(ready[0], &byte, 1));
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

void end(pid_t process) {
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

template <typename Output>
class PartialOutput : public ::testing::Test {};
using Outputs = ::testing::Types<AtomicFile, AtomicFolder>;
TYPED_TEST_SUITE(PartialOutput, Outputs);

TYPED_TEST(PartialOutput, OfAKilledProcessIsRemovedByTheNext) {
  const testing::TemporaryFolder folder;
  end(start_writer<TypeParam>(folder.path()));
  ASSERT_EQ(entries(folder.path()), 1U);
  const AtomicFile next(folder.path() / "other");
  EXPECT_EQ(entries(folder.path()), 1U);  // its own
}

TYPED_TEST(PartialOutput, OfALivingProcessStays) {
  const testing::TemporaryFolder folder;
  const pid_t writer = start_writer<TypeParam>(folder.path());
  {
    const AtomicFile next(folder.path() / "other");
    EXPECT_EQ(entries(folder.path()), 2U);
  }
  EXPECT_EQ(entries(folder.path()), 1U);
  end(writer);
}

TEST(PartialOutputs, OfOneProcessLeaveEachOtherAlone) {
  const testing::TemporaryFolder folder;
  AtomicFile first(folder.path() / "a");
  AtomicFile second(folder.path() / "b");
  first.commit();
  second.commit();
  EXPECT_TRUE(fs::exists(folder.path() / "a"));
  EXPECT_TRUE(fs::exists(folder.path() / "b"));
}

TEST(PartialOutputs, FilesOfOtherNamesAreNotTouched) {
  const testing::TemporaryFolder folder;
  folder.write("lamina-1.partial.txt", "x");
  folder.write("other.partial", "x");
  const AtomicFile file(folder.path() / "a");
  EXPECT_EQ(entries(folder.path()), 3U);
}

}  // namespace
}  // namespace lamina
