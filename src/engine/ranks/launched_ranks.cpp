#include "engine/ranks/launched_ranks.h"

#include <algorithm>

#include "base/error.h"
#include "device/cuda/cuda_device.h"

namespace lamina {

RankPlaces place_ranks(const Topology& topology, const std::optional<LaunchedProcess>& process,
                       std::optional<std::size_t> per_process, DeviceChoice device) {
  const std::size_t world_size = topology.world_size();
  if (!process) {
    if (per_process && *per_process != world_size)
      fail(ErrorCode::incompatible, "--ranks-per-process {}: this process was started alone, and has all {} ranks",
           *per_process, world_size);
    return {{0, world_size}, device};
  }
  const std::size_t count = per_process.value_or(std::max<std::size_t>(1, world_size / process->count));
  topology.check_world_size(process->count * count, process->launcher);
  if (device.kind == DeviceKind::cuda) {
    // A launcher may show each process its own GPUs alone.
    const bool sees_those_of_others = cuda_unavailable_reason(device.index + static_cast<int>(count)).empty();
    if (sees_those_of_others) device.index += static_cast<int>(process->index_on_node * count);
  }
  return {{process->index * count, count}, device};
}

}  // namespace lamina
