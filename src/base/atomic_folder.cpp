#include "base/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/partial_output.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

/// Not hidden, for what is left of a killed process may be large.
fs::path partial_beside(const fs::path& target) {
  static std::atomic<unsigned> count{0};
  return target.parent_path() / fmt::format("lamina-{}-{}.partial", ::getpid(), count.fetch_add(1));
}

void refuse_what_stands_there(const fs::path& target) {
  if (!is_there(target)) return;
  const fs::file_status status = fs::symlink_status(target);
  if (!fs::is_directory(status))
    fail(ErrorCode::invalid_argument, "{} exists and is no folder; name a new or an empty folder", target.string());
  std::error_code error;
  const bool empty = fs::is_empty(target, error);
  if (error) fail(ErrorCode::unavailable, "cannot read {}: {}", target.string(), error.message());
  if (!empty) fail(ErrorCode::invalid_argument, "{} is not empty; name a new or an empty folder", target.string());
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& destination)
    : destination_(destination), target_(without_trailing_slash(destination)) {
  if (!target_.has_filename() || target_.filename() == "." || target_.filename() == "..")
    fail(ErrorCode::invalid_argument, "cannot write '{}': the name of a folder is expected", destination_.string());
  refuse_what_stands_there(target_);
  reclaim_partials(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
  while (true) {
    const fs::path partial = partial_beside(target_);
    if (::mkdir(partial.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      fail(ErrorCode::unavailable, "cannot write {}: {}", target_.string(), std::strerror(errno));
    }
    lock_ = FileDescriptor(::open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_.is_open() && !lock_partial(lock_, partial)) continue;
    partial_ = partial;
    return;
  }
}

AtomicFolder::~AtomicFolder() {
  if (partial_.empty()) return;
  std::error_code error;
  fs::remove_all(partial_, error);
  if (error) spdlog::warn("cannot remove {}: {}", partial_.string(), error.message());
}

std::size_t AtomicFolder::available_bytes() const {
  std::error_code error;
  const fs::space_info space = fs::space(partial_, error);
  if (error) fail(ErrorCode::unavailable, "cannot tell the space left at {}: {}", target_.string(), error.message());
  return space.available;
}

void AtomicFolder::commit() {
  expects(!partial_.empty(), "{} committed twice", target_.string());
  if (std::rename(partial_.c_str(), target_.c_str()) != 0)
    fail(ErrorCode::unavailable, "cannot write {}: {}", target_.string(), std::strerror(errno));
  partial_.clear();
}

}  // namespace lamina
