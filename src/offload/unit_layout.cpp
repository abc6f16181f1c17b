#include "offload/unit_layout.h"

#include <limits>

#include "base/bytes.h"
#include "base/error.h"

namespace lamina {

UnitLayout UnitLayout::of(const std::vector<ParameterGroup>& groups) {
  UnitLayout layout;
  for (const ParameterGroup& group : groups) {
    layout.group_offsets.push_back(layout.size_bytes);
    const auto end = checked_add(layout.size_bytes, weight_bytes(group));
    if (!end || *end > std::numeric_limits<std::size_t>::max() - kAlignment)
      fail(ErrorCode::incompatible, "the image of the weights up to {} does not fit 64 bits", to_string(group.runtime));
    layout.size_bytes = align_up(*end, kAlignment);
  }
  return layout;
}

}  // namespace lamina
