#include "offload/pinned_source.h"

#include "offload/unit_layout.h"

namespace lamina {

std::size_t PinnedSource::image_bytes(const OffloadPlan& plan) {
  std::size_t size = UnitLayout::of(plan.outside).size_bytes;
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) size += UnitLayout::of(unit.groups).size_bytes;
  return size;
}

PinnedSource::PinnedSource(Device& device, const OffloadPlan& plan, const std::vector<WeightBinding>& bindings) {
  const PartPackers packers(plan, bindings);
  outside_ = pack(device, packers.outside);
  for (const std::vector<ImagePacker>& stack : packers.units) {
    std::vector<PinnedBuffer>& images = units_.emplace_back();
    for (const ImagePacker& unit : stack) images.push_back(pack(device, unit));
  }
}

PinnedBuffer PinnedSource::pack(Device& device, const ImagePacker& packer) {
  PinnedBuffer image = device.allocate_pinned(packer.size_bytes(), "weights");
  packer.pack(0, {image.data(), image.size_bytes()});
  host_bytes_ += image.size_bytes();
  return image;
}

PackedPieces PinnedSource::fetch_async(UnitRef unit, std::byte* destination, Stream& stream) {
  const PinnedBuffer& image = units_.at(unit.stack).at(unit.unit);
  stream.copy_to_device_async(destination, image.data(), image.size_bytes(), "fetch unit");
  return {};
}

void PinnedSource::fetch_outside_async(std::byte* destination, Stream& stream) {
  stream.copy_to_device_async(destination, outside_.data(), outside_.size_bytes(), "fetch outside");
}

}  // namespace lamina
