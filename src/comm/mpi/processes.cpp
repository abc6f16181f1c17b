#include "comm/mpi/processes.h"

#include <fmt/format.h>

namespace lamina::mpi {

std::string Processes::name_of(std::size_t process) const {
  const std::size_t first = process * ranks_per_process;
  if (ranks_per_process == 1) return fmt::format("process {} (rank {})", process, first);
  return fmt::format("process {} (ranks {}..{})", process, first, first + ranks_per_process - 1);
}

}  // namespace lamina::mpi
