#include "offload/weight_ring.h"

#include <utility>

#include "base/error.h"

namespace lamina {

WeightRing::WeightRing(Device& device, std::size_t capacity_bytes)
    : memory_(device.allocate(capacity_bytes, "ring")),
      watched_(device.order(), {memory_.data(), memory_.size_bytes()}, "ring"),
      layout_(capacity_bytes) {}

std::byte* WeightRing::push(std::size_t size_bytes, Stream& copy) {
  expects(size_bytes > 0 && size_bytes <= capacity_bytes(), "a unit of {} bytes for a ring of {}", size_bytes,
          capacity_bytes());
  const auto offset = layout_.push(size_bytes);
  if (!offset) return nullptr;
  const RingLayout::Occupant place{*offset, size_bytes};
  const auto overlaps = [&](const Retired& retired) { return retired.bytes.overlaps(place); };
  // The copy stream is in order: once it has waited, all its later copies are behind that event too.
  for (const Retired& retired : retired_)
    if (overlaps(retired)) copy.wait(*retired.free);
  std::erase_if(retired_, overlaps);
  return memory_.data() + *offset;
}

void WeightRing::retire_oldest(std::shared_ptr<Event> free) {
  retired_.push_back({layout_.occupants().front(), std::move(free)});
  layout_.pop_oldest();
}

}  // namespace lamina
