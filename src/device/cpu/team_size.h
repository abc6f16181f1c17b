#pragma once

#include <string_view>

namespace lamina::cpu {

/// The value of LAMINA_CPU_THREADS; throws invalid_argument unless it is a whole number from 1 to 1024.
int parse_team_size(std::string_view text);

}  // namespace lamina::cpu
