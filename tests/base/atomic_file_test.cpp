#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/expect_error.h"
#include "base/file.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void write_whole(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(bytes_of(text));
  file.commit();
}

std::ptrdiff_t entries_of(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777u;
}

/// Sets the umask of the process for one scope.
class Umask {
 public:
  explicit Umask(mode_t mask) : old_(::umask(mask)) {}
  ~Umask() { ::umask(old_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t old_;
};

TEST(AtomicFile, AppearsOnCommitOnly) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("out.png", "old");
  AtomicFile file(path);
  file.write(bytes_of("ne"));
  file.write(bytes_of("w"));
  EXPECT_EQ(read_text_file(path), "old");
  file.commit();
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_EQ(entries_of(folder.path()), 1);
  EXPECT_EQ(file.destination(), path);
  expect_error(ErrorCode::internal, {"committed twice"}, [&] { file.commit(); });
}

TEST(AtomicFile, LeavesNothingBehindAfterAnException) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("out.png", "old");
  EXPECT_THROW(
      {
        AtomicFile file(path);
        file.write(bytes_of("half of it"));
        EXPECT_EQ(entries_of(folder.path()), 2);
        throw std::runtime_error("the work failed");
      },
      std::runtime_error);
  EXPECT_EQ(entries_of(folder.path()), 1);
  EXPECT_EQ(read_text_file(path), "old");
}

TEST(AtomicFile, MovesKeepOneOwner) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.png";
  {
    AtomicFile file(path);
    AtomicFile moved(std::move(file));
    moved.write(bytes_of("a"));
    moved.commit();
  }
  EXPECT_EQ(read_text_file(path), "a");
  EXPECT_EQ(entries_of(folder.path()), 1);
}

TEST(AtomicFile, TwoForOneDestinationDoNotMix) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.png";
  AtomicFile first(path);
  AtomicFile second(path);
  first.write(bytes_of("first"));
  second.write(bytes_of("second"));
  second.commit();
  EXPECT_EQ(read_text_file(path), "second");
  first.commit();
  EXPECT_EQ(read_text_file(path), "first");
  EXPECT_EQ(entries_of(folder.path()), 1);
}

TEST(AtomicFile, NewFilesHaveTheUsersPermissionsAndOldOnesKeepTheirs) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.png";
  const Umask umask(027);
  write_whole(path, "a");
  EXPECT_EQ(mode_of(path), 0640u);
  fs::permissions(path, fs::perms{0604});
  write_whole(path, "b");
  EXPECT_EQ(mode_of(path), 0604u);
}

TEST(AtomicFile, ReplacesTheTargetOfALink) {
  const TemporaryFolder folder;
  const fs::path target = folder.write("shots/1.png", "old");
  const fs::path link = folder.path() / "link.png";
  fs::create_symlink("hop.png", link);
  fs::create_symlink("shots/1.png", folder.path() / "hop.png");
  write_whole(link, "new");
  EXPECT_EQ(fs::read_symlink(link), "hop.png");
  EXPECT_EQ(read_text_file(target), "new");
  EXPECT_EQ(entries_of(target.parent_path()), 1);
}

TEST(AtomicFile, CreatesTheTargetOfALinkToNothing) {
  const TemporaryFolder folder;
  fs::create_symlink("fresh.png", folder.path() / "link.png");
  write_whole(folder.path() / "link.png", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link.png"));
  EXPECT_EQ(read_text_file(folder.path() / "fresh.png"), "new");
}

TEST(AtomicFile, WritesDevicesDirectly) {
  write_whole("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, WritesPipesDirectly) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string received(16, '\0');
  std::thread reader([&] {
    std::ifstream stream(pipe);
    stream.read(received.data(), 16);
    received.resize(static_cast<std::size_t>(stream.gcount()));
  });
  write_whole(pipe, "through");
  reader.join();
  EXPECT_EQ(received, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries_of(folder.path()), 1);
}

/// What /dev/stdout is when the shell redirects it to a file: the descriptor stays valid, its file is not replaced.
TEST(AtomicFile, WritesNamedDescriptorsDirectly) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("redirected", "");
  const FileDescriptor file = FileDescriptor::open_read(path);
  write_whole("/dev/fd/" + std::to_string(file.get()), "direct");
  std::array<char, 16> text{};
  EXPECT_EQ(::read(file.get(), text.data(), text.size()), 6);
  EXPECT_STREQ(text.data(), "direct");
  EXPECT_EQ(entries_of(folder.path()), 1);
}

TEST(AtomicFile, TakesNamesRelativeToTheCurrentFolderAndLongOnes) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  write_whole("out.png", "a");
  write_whole(std::string(255, 'n'), "b");
  fs::current_path(before);
  EXPECT_EQ(read_text_file(folder.path() / "out.png"), "a");
  EXPECT_EQ(read_text_file(folder.path() / std::string(255, 'n')), "b");
}

TEST(AtomicFile, RefusesPlacesThatCannotBeWritten) {
  const TemporaryFolder folder;
  const fs::path& path = folder.path();
  const fs::path file = folder.write("file", "a");
  fs::create_symlink("loop", path / "loop");
  fs::create_symlink("gone/out.png", path / "astray");
  const auto code = ErrorCode::unavailable;
  expect_error(code, {path.string(), "Is a directory"}, [&] { AtomicFile{path}; });
  expect_error(code, {"gone/out.png", "the folder " + (path / "gone").string() + " does not exist"},
               [&] { AtomicFile{path / "gone/out.png"}; });
  expect_error(code, {"astray", "the folder " + (path / "gone").string() + " does not exist"},
               [&] { AtomicFile{path / "astray"}; });
  expect_error(code, {"the folder " + file.string() + " does not exist"}, [&] { AtomicFile{file / "out.png"}; });
  expect_error(code, {"loop", "symbolic links"}, [&] { AtomicFile{path / "loop"}; });
  expect_error(code, {"too long"}, [&] { AtomicFile{path / std::string(256, 'n')}; });
  expect_error(code, {"the name of a file is expected"}, [&] { AtomicFile{fs::path()}; });
  expect_error(code, {"the name of a file is expected"}, [&] { AtomicFile{path / "gone/"}; });
}

TEST(AtomicFile, RefusesProtectedFilesAndFolders) {
  if (::geteuid() == 0) GTEST_SKIP() << "permissions do not bind the superuser";
  const TemporaryFolder folder;
  const fs::path file = folder.write("sealed/file", "a");
  fs::permissions(file, fs::perms{0444});
  expect_error(ErrorCode::unavailable, {"Permission denied"}, [&] { AtomicFile{file}; });
  fs::permissions(file.parent_path(), fs::perms{0555});
  expect_error(ErrorCode::unavailable, {"Permission denied"}, [&] { AtomicFile{file.parent_path() / "new"}; });
  fs::permissions(file.parent_path(), fs::perms{0755});
}

TEST(AtomicFile, ReportsAFullDisk) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  AtomicFile file("/dev/full");
  expect_error(ErrorCode::unavailable, {"/dev/full", "No space left"}, [&] { file.write(bytes_of("a")); });
}

}  // namespace
}  // namespace lamina
