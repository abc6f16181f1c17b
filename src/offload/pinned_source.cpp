#include "offload/pinned_source.h"

#include "offload/pack_member.h"

namespace lamina {

std::size_t PinnedSource::image_bytes(const OffloadPlan& plan) {
  std::size_t size = UnitLayout::of(plan.outside).size_bytes;
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) size += UnitLayout::of(unit.groups).size_bytes;
  return size;
}

PinnedSource::PinnedSource(Device& device, const OffloadPlan& plan, const Checkpoint& checkpoint) {
  outside_ = pack(device, plan.outside, checkpoint);
  for (const Stack& stack : plan.stacks) {
    std::vector<PinnedBuffer>& images = units_.emplace_back();
    for (const StreamUnit& unit : stack.units) images.push_back(pack(device, unit.groups, checkpoint));
  }
}

PinnedBuffer PinnedSource::pack(Device& device, const std::vector<ParameterGroup>& groups,
                                const Checkpoint& checkpoint) {
  const UnitLayout layout = UnitLayout::of(groups);
  PinnedBuffer image = device.allocate_pinned(layout.size_bytes, "weights");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::byte* destination = image.data() + layout.group_offsets[group];
    for (std::size_t member = 0; member < groups[group].members.size(); ++member)
      destination = pack_member(checkpoint, groups[group], member, destination);
  }
  host_bytes_ += layout.size_bytes;
  return image;
}

void PinnedSource::fetch_async(UnitRef unit, std::byte* destination, Stream& stream) {
  const PinnedBuffer& image = units_.at(unit.stack).at(unit.unit);
  stream.copy_to_device_async(destination, image.data(), image.size_bytes(), "fetch unit");
}

void PinnedSource::fetch_outside_async(std::byte* destination, Stream& stream) {
  stream.copy_to_device_async(destination, outside_.data(), outside_.size_bytes(), "fetch outside");
}

}  // namespace lamina
