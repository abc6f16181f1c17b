#pragma once

#include <string>
#include <string_view>

namespace lamina {

/// A check for CLI11 options that name a file to write: '' names none.
std::string check_file_name(const std::string& text);

/// Throws invalid_argument naming `flag` where `file` is where the command prints: one would stand in the other.
void refuse_standard_output(std::string_view flag, const std::string& file);

/// Refuses two flags that name one regular file: the second write would destroy the first.
void refuse_shared_file(std::string_view flag, const std::string& file, std::string_view other_flag,
                        const std::string& other);

}  // namespace lamina
