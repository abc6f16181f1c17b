#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/lockstep/messages.h"

namespace lamina {

/// A proposal as bytes, for rounds between processes of one build: little endian, no padding, no version.
std::vector<std::byte> to_bytes(const Proposal& proposal);
/// The reverse. Throws corrupt where the bytes are not exactly one proposal.
Proposal proposal_from_bytes(std::span<const std::byte> bytes);

}  // namespace lamina
