#include "cli/arguments.h"

#include <algorithm>
#include <string_view>

namespace lamina {

std::vector<std::string> reversed_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool flags_end = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    flags_end = flags_end || argument == "--";
    const bool lacks_value = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (flags_end || !lacks_value) {
      arguments.emplace_back(argument);
      continue;
    }
    arguments.emplace_back(argument.substr(0, argument.size() - 1));
    arguments.emplace_back();
  }
  std::ranges::reverse(arguments);
  return arguments;
}

}  // namespace lamina
