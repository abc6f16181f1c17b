#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace lamina {

InputFile InputFile::open(const std::filesystem::path& path) {
  return InputFile(path, FileDescriptor::open_read(path));
}

InputFile::InputFile(std::filesystem::path path, FileDescriptor file)
    : path_(std::move(path)), file_(std::move(file)), stamp_(read_stamp()) {}

InputFile::Stamp InputFile::read_stamp() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0)
    fail(ErrorCode::unavailable, "cannot stat {}: {}", path_.string(), std::strerror(errno));
  return {status.st_dev, status.st_ino, static_cast<std::size_t>(status.st_size), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

void InputFile::read_at(std::size_t offset_bytes, std::span<std::byte> destination) const {
  while (!destination.empty()) {
    const ssize_t got = ::pread(file_.get(), destination.data(), destination.size(), static_cast<off_t>(offset_bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::unavailable, "cannot read {}: {}", path_.string(), std::strerror(errno));
    if (got == 0)
      fail(ErrorCode::corrupt, "{} was cut while in use: bytes from {} on are gone, it had {}", path_.string(),
           offset_bytes, size_bytes());
    offset_bytes += static_cast<std::size_t>(got);
    destination = destination.subspan(static_cast<std::size_t>(got));
  }
}

void InputFile::check_unchanged() const {
  const Stamp now = read_stamp();
  if (now.size_bytes != stamp_.size_bytes)
    fail(ErrorCode::corrupt, "{} was changed while in use: it had {} bytes and now has {}", path_.string(),
         stamp_.size_bytes, now.size_bytes);
  if (now != stamp_) fail(ErrorCode::corrupt, "{} was written while in use", path_.string());
}

void InputFile::read_ahead(std::size_t offset_bytes, std::size_t size_bytes) const noexcept {
  // Only a hint: a system that refuses it reads later.
  static_cast<void>(::posix_fadvise(file_.get(), static_cast<off_t>(offset_bytes), static_cast<off_t>(size_bytes),
                                    POSIX_FADV_WILLNEED));
}

}  // namespace lamina
