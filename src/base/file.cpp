#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/log.h"
#include "base/partial_output.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;

bool means_absent(int error) {
  return error == ENOENT || error == ENOTDIR;
}

[[noreturn]] void fail_io(std::string_view action, const fs::path& path, int error) {
  std::error_code ignored;
  if (error == ENOENT && fs::is_symlink(path, ignored))
    fail(ErrorCode::not_found, "cannot {} {}: it links to {}, which does not exist", action, path.string(),
         fs::read_symlink(path, ignored).string());
  fail(means_absent(error) ? ErrorCode::not_found : ErrorCode::unavailable, "cannot {} {}: {}", action, path.string(),
       std::strerror(error));
}

void check_is_regular(int fd, const fs::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail_io("stat", path, errno);
  if (!S_ISREG(status.st_mode))
    fail(ErrorCode::invalid_argument, "{} is {}; a file is expected", path.string(),
         S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device");
}

/// /dev/stdout, /dev/fd/3, /proc/self/fd/1: names for an open descriptor, whatever it leads to.
bool names_descriptor(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  const std::string folder = absolute.parent_path().string();
  return folder == "/dev" || folder == "/dev/fd" || (folder.starts_with("/proc/") && folder.ends_with("/fd"));
}

/// The path behind the links at its end; what it names need not exist.
fs::path resolve_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kMaxLinks; ++links) {
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;  // no link, or nothing there
    path = path.parent_path() / next;
  }
  return path;
}

/// A name that no other file of this process gets, short whatever the destination's is.
fs::path temporary_beside(const fs::path& target) {
  static std::atomic<unsigned> count{0};
  return target.parent_path() / fmt::format(".lamina-{}-{}.partial", ::getpid(), count.fetch_add(1));
}

}  // namespace

FileDescriptor FileDescriptor::open_read(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer before it could be refused.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) fail_io("open", path, errno);
  check_is_regular(file.get(), path);
  return file;
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(fd_);
}

FileMapping FileMapping::map(const fs::path& path) {
  return map(InputFile::open(path));
}

FileMapping FileMapping::map(const InputFile& file) {
  const std::size_t size = file.size_bytes();
  if (size == 0) return FileMapping(file.path(), {});
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor().get(), 0);
  if (address == MAP_FAILED) fail_io("map", file.path(), errno);
  return FileMapping(file.path(), {static_cast<const std::byte*>(address), size});
}

FileMapping::FileMapping(FileMapping&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_text_file(const fs::path& path) {
  const FileMapping file = FileMapping::map(path);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

bool is_there(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (!means_absent(errno)) fail_io("look up", path, errno);
  return false;
}

bool is_plain_file_name(std::string_view name) {
  // A zero byte would end the name early on its way to the system.
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

void AtomicFile::fail_write(int error) const {
  fail(ErrorCode::unavailable, "cannot write {}: {}", destination_.string(), std::strerror(error));
}

AtomicFile::AtomicFile(fs::path destination) : destination_(std::move(destination)) {
  if (!destination_.has_filename())
    fail(ErrorCode::unavailable, "cannot write '{}': the name of a file is expected", destination_.string());
  struct stat old {};
  const bool exists = ::stat(destination_.c_str(), &old) == 0;
  if (!exists && !means_absent(errno)) fail_write(errno);
  if (exists && S_ISDIR(old.st_mode)) fail_write(EISDIR);
  if (exists && (!S_ISREG(old.st_mode) || names_descriptor(destination_))) {
    file_ = FileDescriptor(::open(destination_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (!file_.is_open()) fail_write(errno);
    return;
  }
  // The folder alone decides about a rename; a file that its owner protected is respected nevertheless.
  if (exists && ::faccessat(AT_FDCWD, destination_.c_str(), W_OK, AT_EACCESS) != 0) fail_write(errno);
  open_temporary();
  if (exists && ::fchmod(file_.get(), old.st_mode & 07777) != 0)
    spdlog::warn("{} does not keep its permissions: {}", destination_.string(), std::strerror(errno));
}

void AtomicFile::open_temporary() {
  target_ = resolve_links(destination_);
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    fail(ErrorCode::unavailable, "cannot write {}: the folder {} does not exist", destination_.string(),
         folder.string());
  reclaim_partials(folder);
  while (true) {
    temporary_ = temporary_beside(target_);
    file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_.is_open() && lock_partial(file_, temporary_)) return;
    if (!file_.is_open() && errno != EEXIST) fail_write(errno);
  }
}

AtomicFile::~AtomicFile() {
  if (!file_.is_open() || temporary_.empty()) return;
  if (::unlink(temporary_.c_str()) != 0)
    spdlog::warn("cannot remove {}: {}", temporary_.string(), std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  expects(file_.is_open(), "{} committed twice", destination_.string());
  if (!temporary_.empty() && (::fsync(file_.get()) != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0))
    fail_write(errno);
  file_ = FileDescriptor(-1);
}

void write_text(AtomicFile file, std::string_view text) {
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace lamina
