#include "base/partial_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <string>
#include <system_error>

#include "base/log.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

bool is_partial(const std::string& name) {
  return name.ends_with(".partial") && (name.starts_with(".lamina-") || name.starts_with("lamina-"));
}

bool is_first_visit(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> visited;
  const std::lock_guard lock(mutex);
  return visited.insert(fs::absolute(folder).lexically_normal()).second;
}

void reclaim(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;  // somebody writes it
  std::error_code error;
  if (fs::remove_all(path, error) > 0 && !error)
    spdlog::info("{} was left behind by a run that was killed, and is removed", path.string());
}

}  // namespace

bool lock_partial(const FileDescriptor& file, const fs::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat opened {};
  struct stat named {};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

void reclaim_partials(const fs::path& folder) {
  if (!is_first_visit(folder)) return;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (is_partial(entry->path().filename().string())) reclaim(entry->path());
}

}  // namespace lamina
