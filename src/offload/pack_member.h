#pragma once

#include <cstddef>

#include "offload/offload_plan.h"
#include "weights/checkpoint.h"

namespace lamina {

/// Copies a member of a group from the checkpoint, whole or the rank's part of it, to `destination` on the host, and
/// returns the place behind it. Throws not_found or incompatible naming file and tensor.
std::byte* pack_member(const Checkpoint& checkpoint, const ParameterGroup& group, std::size_t member,
                       std::byte* destination);

}  // namespace lamina
