#pragma once

#include <string_view>

namespace lamina::cpu {

/// The value of LAMINA_CPU_THREADS; throws invalid_argument unless it is a whole number from 1 to 1024.
int parse_team_size(std::string_view text);

/// Throws unavailable naming the environment's variable where OpenMP would start fewer threads than the team has:
/// oneDNN divides work by the team it is told of, so the rest would never be done.
void check_team_can_start();

/// Makes teams of the calling thread have `cpu_team_size()` threads, whatever OMP_DYNAMIC and OMP_NUM_THREADS say.
void set_thread_team();

}  // namespace lamina::cpu
