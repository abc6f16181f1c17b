#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

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

}  // namespace lamina
