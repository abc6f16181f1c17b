#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared_fate.h"

namespace lamina {

/// A group of GPUs of this process, one rank each, in the order of `devices` (as CUDA counts them): one communicator
/// for each rank, to be handed to its thread. Collectives are NCCL's kernels on the given streams. All-reduces of more
/// than two ranks in bf16 round more than once, where NCCL adds piece by piece.
///
/// A rank that waits for peers which never come waits until somebody calls `abort`; then its stream goes on, and throws
/// the reason where it is synchronized.
///
/// Throws unavailable where this build has no NCCL, device where NCCL cannot connect the GPUs.
std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const std::vector<int>& devices);

/// This process's part of a group of GPUs of several processes.
struct NcclPart {
  std::vector<std::byte> id;  ///< of the group: one process makes it and gives it to the others
  std::size_t size = 0;       ///< ranks of the group
  std::size_t first_rank = 0;
  std::vector<int> devices;          ///< of the ranks from `first_rank` on
  std::shared_ptr<SharedFate> fate;  ///< ends with the group, and the group with it
};

/// Throws unavailable where this build has no NCCL.
std::vector<std::byte> create_nccl_id();

/// The ends of the ranks of this process. Blocks until all processes of the group have called it.
std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const NcclPart& part);

}  // namespace lamina
