#pragma once

#include <cstddef>
#include <string>

namespace lamina::mpi {

/// The processes of a world. Each has as many world ranks, one behind the other.
struct Processes {
  std::size_t index = 0;  ///< of this one
  std::size_t count = 1;
  std::size_t ranks_per_process = 1;

  std::size_t of_rank(std::size_t world_rank) const noexcept { return world_rank / ranks_per_process; }
  /// "process 1 (ranks 2..3)", as messages call it.
  std::string name_of(std::size_t process) const;
};

}  // namespace lamina::mpi
