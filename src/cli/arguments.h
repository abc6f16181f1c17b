#pragma once

#include <string>
#include <vector>

namespace lamina {

/// The arguments behind the program's name, last one first, as CLI11 takes them. `--flag=` without a value becomes the
/// flag and an empty value; CLI11 would take the next argument for the value.
std::vector<std::string> reversed_arguments(int argc, char** argv);

}  // namespace lamina
