#pragma once

#include <cstddef>
#include <optional>

#include "comm/launched_process.h"
#include "comm/rank_connector.h"
#include "comm/topology.h"
#include "engine/config/select_device.h"

namespace lamina {

/// The ranks of a topology that this process will have, and the first one's device.
struct RankPlaces {
  LocalRanks local;
  DeviceChoice first_device;
};

/// Where `process` is nothing, all ranks are threads of this process. Else each process has as many, `per_process`
/// where it is given; on GPUs those of a node have neighbouring ones, or each those that it alone may see. Throws
/// incompatible naming the flags where processes and ranks do not match.
RankPlaces place_ranks(const Topology& topology, const std::optional<LaunchedProcess>& process,
                       std::optional<std::size_t> per_process, DeviceChoice device);

}  // namespace lamina
