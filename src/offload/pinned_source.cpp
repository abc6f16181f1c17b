#include "offload/pinned_source.h"

namespace lamina {

PinnedSource::PinnedSource(Device& device, const OffloadPlan& plan, const std::vector<WeightBinding>& bindings)
    : images_(std::make_shared<const PinnedImages>(device, plan, bindings)), own_bytes_(images_->size_bytes()) {}

PackedPieces PinnedSource::fetch_async(UnitRef unit, std::byte* destination, Stream& stream) {
  const PinnedBuffer& image = images_->unit(unit);
  stream.copy_to_device_async(destination, image.data(), image.size_bytes(), "fetch unit");
  return {};
}

void PinnedSource::fetch_outside_async(std::byte* destination, Stream& stream) {
  const PinnedBuffer& image = images_->outside();
  stream.copy_to_device_async(destination, image.data(), image.size_bytes(), "fetch outside");
}

}  // namespace lamina
