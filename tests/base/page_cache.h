#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"

namespace lamina::testing {

/// The share of a file's pages that are in the page cache.
inline double resident_share(const std::filesystem::path& path) {
  const FileMapping mapping = FileMapping::map(path);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((mapping.bytes().size() + page - 1) / page);
  void* address = const_cast<std::byte*>(mapping.bytes().data());
  EXPECT_EQ(::mincore(address, mapping.bytes().size(), resident.data()), 0);
  const auto count = std::ranges::count_if(resident, [](unsigned char flags) { return (flags & 1) != 0; });
  return static_cast<double>(count) / static_cast<double>(resident.size());
}

/// Writes a file's pages back and drops them. False where the file system keeps them anyway (tmpfs), or somebody has
/// them mapped and touched.
inline bool drop_pages(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open_read(path);
  ::fsync(file.get());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return resident_share(path) < 0.5;
}

}  // namespace lamina::testing
