#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lamina {

/// Owner of a POSIX file descriptor. Move-only; closes on destruction.
class FileDescriptor {
 public:
  /// Opens a regular file for reading, through symbolic links. Throws not_found; invalid_argument for a folder, a pipe
  /// or a device; or unavailable naming the path and the system's reason.
  static FileDescriptor open_read(const std::filesystem::path& path);

  /// Takes over an open descriptor, or -1 for none.
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  bool is_open() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

class InputFile;

/// A whole file mapped read-only and shared; unmapped on destruction. Views of `bytes` must not outlive it. The file
/// must not be cut while it is mapped: touching bytes that are gone ends the process (SIGBUS).
class FileMapping {
 public:
  /// Throws as `FileDescriptor::open_read` does. An empty file gives an empty span.
  static FileMapping map(const std::filesystem::path& path);
  /// Maps the very file that is open.
  static FileMapping map(const InputFile& file);

  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&& other) noexcept;
  ~FileMapping();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The path as it was given, links not resolved.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  FileMapping(std::filesystem::path path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// The whole file as text; throws as `FileDescriptor::open_read` does.
std::string read_text_file(const std::filesystem::path& path);

/// Whether something stands at `path`, be it a link to nothing. Throws unavailable where the system does not tell.
bool is_there(const std::filesystem::path& path);

/// Whether `name` names something inside a folder: not empty, no separators, neither "." nor "..".
bool is_plain_file_name(std::string_view name);

/// A file that appears whole or not at all: written beside its destination, renamed onto it by `commit`, removed on
/// destruction without one. Where the destination is a symbolic link, the file it points to is replaced. A new file
/// gets the permissions that the umask leaves, a replaced one keeps its own. A destination that is no regular file (a
/// pipe, /dev/null, /dev/stdout) is written directly instead: `write` is seen at once. One thread at a time; several
/// objects may share a destination, and the last commit wins.
class AtomicFile {
 public:
  /// Creates the file beside the destination, which proves that the place is writable. Throws unavailable naming the
  /// path and the reason (no such folder, no permission, a folder of that name).
  explicit AtomicFile(std::filesystem::path destination);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;

  /// Appends; throws unavailable naming the path on a full disk or an I/O error.
  void write(std::span<const std::byte> bytes);
  /// Puts the file in its place, its bytes on the disk. The last call on this object.
  void commit();

  /// The path as it was given.
  const std::filesystem::path& destination() const noexcept { return destination_; }

 private:
  [[noreturn]] void fail_write(int error) const;
  void open_temporary();

  std::filesystem::path destination_;
  std::filesystem::path target_;     ///< the destination behind its links
  std::filesystem::path temporary_;  ///< empty where the target is written directly
  FileDescriptor file_{-1};
};

/// Writes and commits; throws as those do.
void write_text(AtomicFile file, std::string_view text);

}  // namespace lamina
