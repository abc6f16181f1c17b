#include "base/atomic_folder.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/file.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TemporaryFolder;

void write_file(const fs::path& path) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(std::string_view("text"))));
  file.commit();
}

std::ptrdiff_t entries_of(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(AtomicFolder, AppearsOnCommitOnly) {
  const TemporaryFolder scratch;
  const fs::path destination = scratch.path() / "out";
  AtomicFolder folder(destination);
  write_file(folder.path() / "a");
  EXPECT_FALSE(fs::exists(destination));
  EXPECT_GT(folder.available_bytes(), 0U);
  folder.commit();
  EXPECT_EQ(read_text_file(destination / "a"), "text");
  EXPECT_EQ(entries_of(scratch.path()), 1);
}

TEST(AtomicFolder, LeavesNothingBehindWithoutCommit) {
  const TemporaryFolder scratch;
  {
    AtomicFolder folder(scratch.path() / "out");
    fs::create_directory(folder.path() / "inner");
    write_file(folder.path() / "inner" / "a");
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(AtomicFolder, TakesAnEmptyFolderARelativeNameAndATrailingSlash) {
  const TemporaryFolder scratch;
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path());
  fs::create_directory("empty");
  for (const char* name : {"empty", "new/"}) {
    AtomicFolder folder{fs::path(name)};
    write_file(folder.path() / "a");
    folder.commit();
  }
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(scratch.path() / "empty" / "a"));
  EXPECT_TRUE(fs::exists(scratch.path() / "new" / "a"));
  EXPECT_EQ(entries_of(scratch.path()), 2);
}

TEST(AtomicFolder, RefusesWhatIsThereAndPlacesThatCannotBeWritten) {
  const TemporaryFolder scratch;
  const fs::path& path = scratch.path();
  const fs::path file = scratch.write("full/file", "mine");
  fs::create_symlink("full", path / "link");
  const auto refused = [](const fs::path& destination) { return [=] { AtomicFolder{destination}; }; };
  expect_error(ErrorCode::invalid_argument, {"full", "not empty"}, refused(path / "full"));
  expect_error(ErrorCode::invalid_argument, {"file", "no folder"}, refused(file));
  expect_error(ErrorCode::invalid_argument, {"link", "no folder"}, refused(path / "link"));
  expect_error(ErrorCode::invalid_argument, {"name of a folder"}, refused(""));
  expect_error(ErrorCode::invalid_argument, {"name of a folder"}, refused(path / ".."));
  expect_error(ErrorCode::unavailable, {"gone/out", "No such file"}, refused(path / "gone" / "out"));
  EXPECT_EQ(read_text_file(file), "mine");
  EXPECT_EQ(entries_of(path), 2);
}

/// A folder that another process fills in the meantime is not replaced.
TEST(AtomicFolder, NeverReplacesWhatCameInBetween) {
  const TemporaryFolder scratch;
  const fs::path destination = scratch.path() / "out";
  {
    AtomicFolder folder(destination);
    const fs::path other = scratch.write("out/other", "theirs");
    expect_error(ErrorCode::unavailable, {"out", "not empty"}, [&] { folder.commit(); });
  }
  EXPECT_EQ(read_text_file(destination / "other"), "theirs");
  EXPECT_EQ(entries_of(scratch.path()), 1);
}

}  // namespace
}  // namespace lamina
