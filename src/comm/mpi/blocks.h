#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/exchange.h"

namespace lamina::mpi {

/// What each rank of this process brings to a collective, by their order.
using LocalCollectives = std::span<const Collective>;

/// The bytes that other processes need of this one's ranks, by part of `group.others`.
std::vector<std::shared_ptr<const Bytes>> blocks_for_others(const GroupAddress& group, LocalCollectives local);

/// Completes a collective on this process's ranks with what came from the others.
void deliver(const GroupAddress& group, LocalCollectives local, const std::vector<Bytes>& incoming);

}  // namespace lamina::mpi
