#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lamina {

/// A group of `ranks` threads of this process, each with a CPU device of its own: one communicator for each rank, to be
/// handed to its thread. A collective is work of each rank's stream thread, which meets its peers there. Those that
/// wait in one for longer than `time_limit` end the group. On virtual clocks a collective ends on all ranks when it
/// does on the last; its cost is that of `size * piece_bytes`.
std::vector<std::unique_ptr<Communicator>> create_local_group(
    const std::string& name, std::size_t ranks, std::optional<std::chrono::milliseconds> time_limit = std::nullopt);

}  // namespace lamina
