#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "base/expect_error.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;

std::string_view text_of(const FileMapping& mapping) {
  return {reinterpret_cast<const char*>(mapping.bytes().data()), mapping.bytes().size()};
}

TEST(FileMapping, ShowsTheWholeFile) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.write("a", std::string("a\0b", 3));
  FileMapping mapping = FileMapping::map(file);
  EXPECT_EQ(text_of(mapping), std::string_view("a\0b", 3));
  EXPECT_EQ(mapping.path(), file);

  FileMapping moved = std::move(mapping);
  EXPECT_EQ(text_of(moved), std::string_view("a\0b", 3));
  moved = FileMapping::map(folder.write("empty", ""));
  EXPECT_TRUE(moved.bytes().empty());
}

TEST(FileMapping, FollowsLinksOfHubCaches) {
  const testing::TemporaryFolder folder;
  folder.write("blobs/0123", "weights");
  fs::create_directories(folder.path() / "snapshots/main");
  const fs::path link = folder.path() / "snapshots/main/model.safetensors";
  fs::create_symlink("../../blobs/0123", link);
  const FileMapping mapping = FileMapping::map(link);
  EXPECT_EQ(text_of(mapping), "weights");
  EXPECT_EQ(mapping.path(), link);

  fs::remove(folder.path() / "blobs/0123");
  expect_error(ErrorCode::not_found, {link.string(), "links to ../../blobs/0123, which does not exist"},
               [&] { FileMapping::map(link); });
}

TEST(FileMapping, RefusesWhatIsNoFile) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.write("a", "a");
  expect_error(ErrorCode::not_found, {"cannot open", "missing"}, [&] { FileMapping::map(folder.path() / "missing"); });
  expect_error(ErrorCode::not_found, {"cannot open"}, [&] { FileMapping::map(file / "below"); });
  expect_error(ErrorCode::invalid_argument, {folder.path().string(), "is a folder"},
               [&] { FileMapping::map(folder.path()); });
  expect_error(ErrorCode::invalid_argument, {"/dev/null is a pipe or a device"}, [] { FileMapping::map("/dev/null"); });
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(ErrorCode::invalid_argument, {"is a pipe"}, [&] { FileMapping::map(pipe); });
}

TEST(ReadTextFile, ReadsAll) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_text_file(folder.write("a", "one\ntwo")), "one\ntwo");
  EXPECT_EQ(read_text_file(folder.write("empty", "")), "");
}

TEST(IsThere, CountsLinksToNothing) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.write("a", "a");
  fs::create_symlink("nowhere", folder.path() / "link");
  EXPECT_TRUE(is_there(file));
  EXPECT_TRUE(is_there(folder.path()));
  EXPECT_TRUE(is_there(folder.path() / "link"));
  EXPECT_FALSE(is_there(folder.path() / "nowhere"));
  EXPECT_FALSE(is_there(file / "below"));
  expect_error(ErrorCode::unavailable, {"too long"}, [&] { is_there(folder.path() / std::string(300, 'a')); });
}

TEST(IsPlainFileName, RefusesPaths) {
  for (const char* name : {"a", "model-00001-of-00002.safetensors", "..a", "a..", "..."})
    EXPECT_TRUE(is_plain_file_name(name)) << name;
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("../a"),
                                  std::string("/a"), std::string("a/b"), std::string("a/"), std::string("a\0b", 3)})
    EXPECT_FALSE(is_plain_file_name(name)) << name;
}

}  // namespace
}  // namespace lamina
