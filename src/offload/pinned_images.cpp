#include "offload/pinned_images.h"

#include "offload/unit_layout.h"

namespace lamina {

std::size_t PinnedImages::size_bytes(const OffloadPlan& plan) {
  std::size_t size = UnitLayout::of(plan.outside).size_bytes;
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) size += UnitLayout::of(unit.groups).size_bytes;
  return size;
}

PinnedImages::PinnedImages(Device& device, const OffloadPlan& plan, const std::vector<WeightBinding>& bindings) {
  const PartPackers packers(plan, bindings);
  outside_ = pack(device, packers.outside);
  for (const std::vector<ImagePacker>& stack : packers.units) {
    std::vector<PinnedBuffer>& images = units_.emplace_back();
    for (const ImagePacker& unit : stack) images.push_back(pack(device, unit));
  }
}

PinnedBuffer PinnedImages::pack(Device& device, const ImagePacker& packer) {
  PinnedBuffer image = device.allocate_pinned(packer.size_bytes(), "weights");
  packer.pack(0, {image.data(), image.size_bytes()});
  size_bytes_ += image.size_bytes();
  return image;
}

}  // namespace lamina
