#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/host_exchange.h"
#include "comm/mpi/process_group.h"

namespace lamina::mpi {

/// Ends of a group of CPU devices for the ranks of this process, in order. A collective is work of each rank's stream
/// thread; the last one of the process sends and receives for all.
std::vector<std::unique_ptr<Communicator>> create_ends(const std::string& name,
                                                       const std::shared_ptr<ProcessGroup>& group);

/// The same for rounds of the host.
std::vector<std::unique_ptr<HostExchange>> create_round_ends(const std::shared_ptr<ProcessGroup>& group);

}  // namespace lamina::mpi
