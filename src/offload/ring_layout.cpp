#include "offload/ring_layout.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {

std::optional<std::size_t> RingLayout::push(std::size_t size_bytes) {
  expects(size_bytes > 0 && size_bytes <= capacity_bytes_, "an occupant of {} bytes in a ring of {}", size_bytes,
          capacity_bytes_);
  std::size_t offset = occupants_.empty() ? 0 : occupants_.back().offset + occupants_.back().size_bytes;
  if (size_bytes > capacity_bytes_ - offset) offset = 0;
  const Occupant place{offset, size_bytes};
  if (std::ranges::any_of(occupants_, [&](const Occupant& other) { return other.overlaps(place); }))
    return std::nullopt;
  occupants_.push_back(place);
  return offset;
}

void RingLayout::pop_oldest() {
  expects(!occupants_.empty(), "the ring is empty");
  occupants_.pop_front();
}

void RingLayout::pop_newest() {
  expects(!occupants_.empty(), "the ring is empty");
  occupants_.pop_back();
}

}  // namespace lamina
