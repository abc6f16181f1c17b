#include "comm/launched_process.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace lamina {
namespace {

/// The variables in which a launcher tells a process its place.
struct Launcher {
  const char* name;
  const char* mark;  ///< set for processes that it started, and for no others
  const char* index;
  const char* count;
  const char* index_on_node;
};

/// Slurm sets its counts in batch scripts, too; PMIX_RANK only for what `srun --mpi=pmix` starts.
constexpr std::array kLaunchers{Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                Launcher{"srun", "PMIX_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};

std::size_t number_in(const Launcher& launcher, const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr)
    fail(ErrorCode::invalid_argument, "{} is set, but {} is not: start Lamina with mpirun or srun --mpi=pmix",
         launcher.mark, variable);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  if (error != std::errc() || *end != '\0') fail(ErrorCode::invalid_argument, "{}={} is no number", variable, text);
  return number;
}

}  // namespace

std::optional<LaunchedProcess> launched_process() {
  for (const Launcher& launcher : kLaunchers) {
    if (std::getenv(launcher.mark) == nullptr) continue;
    LaunchedProcess process{launcher.name, number_in(launcher, launcher.index), number_in(launcher, launcher.count),
                            number_in(launcher, launcher.index_on_node)};
    if (process.index >= process.count)
      fail(ErrorCode::invalid_argument, "{}={} of {}={}: there is no such process", launcher.index, process.index,
           launcher.count, process.count);
    return process;
  }
  return std::nullopt;
}

}  // namespace lamina
