#include "base/input_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/expect_error.h"
#include "base/page_cache.h"
#include "base/temporary_folder.h"
#include "base/without_privileges.h"

namespace lamina {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

std::string read(const InputFile& file, std::size_t offset, std::size_t size) {
  std::string text(size, ' ');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(InputFile, ReadsAnyPlaceAndStaysTheFileThatWasOpened) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "0123456789");
  const InputFile file = InputFile::open(path);
  EXPECT_EQ(file.size_bytes(), 10u);
  EXPECT_EQ(read(file, 3, 4), "3456");
  EXPECT_EQ(read(file, 10, 0), "");
  std::filesystem::rename(folder.write("g", "abcdefghij"), path);
  EXPECT_EQ(read(file, 0, 10), "0123456789");
  EXPECT_NO_THROW(file.check_unchanged());
}

TEST(InputFile, NamesAFileThatWasCutOrWritten) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "0123456789");
  const InputFile file = InputFile::open(path);
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  expect_error(ErrorCode::corrupt, {path.string(), "cut while in use", "bytes from 4 on"}, [&] { read(file, 2, 5); });
  expect_error(ErrorCode::corrupt, {path.string(), "had 10 bytes and now has 4"}, [&] { file.check_unchanged(); });
  std::filesystem::resize_file(path, 10);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  expect_error(ErrorCode::corrupt, {path.string(), "was written while in use"}, [&] { file.check_unchanged(); });
}

TEST(InputFile, ReadAheadBringsPagesIn) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", std::string(8 << 20, 'x'));
  if (!testing::drop_pages(path)) GTEST_SKIP() << "this file system keeps all pages";
  const InputFile file = InputFile::open(path);
  file.read_ahead(0, file.size_bytes());
  for (int i = 0; i < 200 && testing::resident_share(path) < 0.99; ++i) ::usleep(10000);
  EXPECT_GT(testing::resident_share(path), 0.99);
}

TEST(InputFile, RefusesWhatIsNoReadableFile) {
  const TemporaryFolder folder;
  expect_error(ErrorCode::invalid_argument, {"is a folder"}, [&] { InputFile::open(folder.path()); });
  const auto path = folder.write("f", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::others_exec, std::filesystem::perm_options::add);
  const testing::WithoutPrivileges nobody;
  expect_error(ErrorCode::unavailable, {path.string(), "denied"}, [&] { InputFile::open(path); });
}

}  // namespace
}  // namespace lamina
