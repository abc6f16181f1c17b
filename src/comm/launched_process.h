#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lamina {

/// This process's place among those that one command started.
struct LaunchedProcess {
  std::string launcher;  ///< "mpirun", "srun"
  std::size_t index = 0;
  std::size_t count = 1;
  std::size_t index_on_node = 0;
};

/// What the environment says: nothing where this process was started by itself. Throws invalid_argument naming a
/// variable that is no number, or a place outside the count.
std::optional<LaunchedProcess> launched_process();

}  // namespace lamina
