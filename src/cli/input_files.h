#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace lamina {

/// The files that a command reads, so that it never writes over one of them: told apart by device and inode, whatever
/// name or link leads there.
class InputFiles {
 public:
  /// A file, or all files of a folder. What is not there is left to whoever reads it. `what` says what it is to the
  /// command: a flag, or "the model".
  void add(std::string_view what, const std::filesystem::path& path);

  /// Throws invalid_argument naming flag, file and the input where `output` is one of them.
  void refuse_output(std::string_view flag, const std::filesystem::path& output) const;

 private:
  void add_file(std::string_view what, const std::filesystem::path& file);

  std::map<std::pair<dev_t, ino_t>, std::string> names_;
};

}  // namespace lamina
