#pragma once

#include <cstddef>
#include <vector>

#include "offload/offload_plan.h"

namespace lamina {

/// Where the groups of a unit (or of the weights outside the blocks) lie in its image. The same on host and device:
/// groups are 256-byte aligned, in order, their members contiguous; the image is padded to 256 bytes.
struct UnitLayout {
  static constexpr std::size_t kAlignment = 256;

  std::vector<std::size_t> group_offsets;
  std::size_t size_bytes = 0;

  static UnitLayout of(const std::vector<ParameterGroup>& groups);
};

}  // namespace lamina
