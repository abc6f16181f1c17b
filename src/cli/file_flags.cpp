#include "cli/file_flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace lamina {
namespace {

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

std::string check_file_name(const std::string& text) {
  return text.empty() ? "the name of a file is expected, found ''" : "";
}

void refuse_standard_output(std::string_view flag, const std::string& file) {
  struct stat named {};
  struct stat output {};
  struct stat null {};
  if (::stat(file.c_str(), &named) != 0 || ::fstat(STDOUT_FILENO, &output) != 0) return;
  if (!is_same_file(named, output)) return;
  if (::stat("/dev/null", &null) == 0 && is_same_file(named, null)) return;  // takes everything
  fail(ErrorCode::invalid_argument, "{} {}: the command prints its results there; name a file of its own", flag, file);
}

void refuse_shared_file(std::string_view flag, const std::string& file, std::string_view other_flag,
                        const std::string& other) {
  if (file.empty() || other.empty()) return;
  namespace fs = std::filesystem;
  if (fs::weakly_canonical(fs::absolute(file)) != fs::weakly_canonical(fs::absolute(other))) return;
  if (fs::exists(file) && !fs::is_regular_file(file)) return;  // /dev/null takes everything
  fail(ErrorCode::invalid_argument, "{} and {} both name {}; give each its own file", other_flag, flag, file);
}

}  // namespace lamina
