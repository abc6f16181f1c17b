#include "cli/input_files.h"

#include <sys/stat.h>

#include <system_error>

#include "base/error.h"

namespace lamina {

namespace fs = std::filesystem;

void InputFiles::add(std::string_view what, const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return add_file(what, path);
  constexpr auto kOptions =
      fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
  fs::recursive_directory_iterator entry(path, kOptions, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) add_file(what, entry->path());
}

void InputFiles::add_file(std::string_view what, const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  names_.try_emplace({status.st_dev, status.st_ino}, fmt::format("{} ({})", what, file.string()));
}

void InputFiles::refuse_output(std::string_view flag, const fs::path& output) const {
  struct stat status {};
  if (output.empty() || ::stat(output.c_str(), &status) != 0) return;
  const auto input = names_.find({status.st_dev, status.st_ino});
  if (input != names_.end())
    fail(ErrorCode::invalid_argument, "{} {}: the file is read by this command as {}; name another one", flag,
         output.string(), input->second);
}

}  // namespace lamina
