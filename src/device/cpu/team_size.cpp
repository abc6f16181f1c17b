#include "device/cpu/team_size.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "device/cpu/cpu_device.h"

namespace lamina {
namespace cpu {

int parse_team_size(std::string_view text) {
  constexpr int kMaxTeamSize = 1024;
  int size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || end != text.data() + text.size() || size < 1 || size > kMaxTeamSize)
    fail(ErrorCode::invalid_argument, "LAMINA_CPU_THREADS is '{}', expected a whole number from 1 to {}", text,
         kMaxTeamSize);
  return size;
}

void check_team_can_start() {
  const int size = cpu_team_size();
  if (size > omp_get_thread_limit())
    fail(ErrorCode::unavailable,
         "OpenMP starts {} of the {} threads of a team (OMP_THREAD_LIMIT); unset it, or set LAMINA_CPU_THREADS={}",
         omp_get_thread_limit(), size, omp_get_thread_limit());
}

void set_thread_team() {
  omp_set_dynamic(0);
  omp_set_max_active_levels(std::max(1, omp_get_max_active_levels()));
  omp_set_num_threads(cpu_team_size());
}

}  // namespace cpu

namespace {

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));  // more cores than the set can tell
}

}  // namespace

int cpu_team_size() {
  static const int size = [] {
    const char* text = std::getenv("LAMINA_CPU_THREADS");
    return text != nullptr ? cpu::parse_team_size(text) : usable_cores();
  }();
  return size;
}

}  // namespace lamina
