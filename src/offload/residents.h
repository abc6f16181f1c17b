#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lamina/resident_policy.h"
#include "offload/offload_plan.h"

namespace lamina {

/// "leading" or "spread"; throws invalid_argument naming `flag` otherwise.
ResidentPolicy parse_resident_policy(std::string_view text, std::string_view flag);
std::string_view to_string(ResidentPolicy policy) noexcept;

/// For each unit of `stack` whether it stays on the device when `blocks` blocks do. A block's units stay together; only
/// blocks of eligible lists in stacks of phase `step` count; asking for more than there are keeps all of them.
/// Spread takes eligible block floor(i * eligible / blocks) for i = 0 .. blocks - 1.
std::vector<bool> choose_residents(const OffloadPlan& plan, const Stack& stack, std::size_t blocks,
                                   ResidentPolicy policy);

/// Blocks of the stack that may be kept on the device.
std::size_t eligible_block_count(const OffloadPlan& plan, const Stack& stack);

}  // namespace lamina
