#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file.h"

namespace lamina {

/// A regular file, open for reading at any place. It stays the file that was opened, whatever is put in its place
/// later. A file that is cut while it is read is an error that names it, never a signal. Thread safe; move-only.
class InputFile {
 public:
  /// Throws as `FileDescriptor::open_read` does.
  static InputFile open(const std::filesystem::path& path);

  /// The path as it was given, links not resolved.
  const std::filesystem::path& path() const noexcept { return path_; }
  const FileDescriptor& descriptor() const noexcept { return file_; }
  /// When it was opened.
  std::size_t size_bytes() const noexcept { return stamp_.size_bytes; }

  /// Whether both are one file of the system, whatever their paths.
  bool is_same(const InputFile& other) const noexcept {
    return stamp_.device == other.stamp_.device && stamp_.inode == other.stamp_.inode;
  }

  /// Fills `destination` with the bytes from `offset_bytes` on. Throws corrupt where the file ends before, unavailable
  /// on an I/O error; both name the path.
  void read_at(std::size_t offset_bytes, std::span<std::byte> destination) const;
  /// Throws corrupt naming the path where the file was written or cut since it was opened. Called behind reads, it
  /// proves that they saw the file as it was.
  void check_unchanged() const;
  /// A hint that these bytes will be read soon: the system may begin to fetch them from the disk.
  void read_ahead(std::size_t offset_bytes, std::size_t size_bytes) const noexcept;

 private:
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::size_t size_bytes = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };

  InputFile(std::filesystem::path path, FileDescriptor file);
  Stamp read_stamp() const;

  std::filesystem::path path_;
  FileDescriptor file_;
  Stamp stamp_;
};

}  // namespace lamina
