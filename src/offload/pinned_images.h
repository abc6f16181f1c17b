#pragma once

#include <cstddef>
#include <vector>

#include "device/device.h"
#include "offload/image_packer.h"
#include "offload/offload_plan.h"
#include "offload/unit_source.h"
#include "weights/weight_binding.h"

namespace lamina {

/// The weight images of one model part in pinned memory. Packed once and immutable since, so any thread may read them;
/// registered for all devices, so copies to any of them may read them too, and are over when the images go.
class PinnedImages {
 public:
  /// Pinned bytes that the images of this plan take.
  static std::size_t size_bytes(const OffloadPlan& plan);

  /// `device` registers the memory, and outlives the images. Throws as `pack_weight` does, and out_of_host_memory.
  PinnedImages(Device& device, const OffloadPlan& plan, const std::vector<WeightBinding>& bindings);

  const PinnedBuffer& unit(UnitRef unit) const { return units_.at(unit.stack).at(unit.unit); }
  const PinnedBuffer& outside() const noexcept { return outside_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  PinnedBuffer pack(Device& device, const ImagePacker& packer);

  std::vector<std::vector<PinnedBuffer>> units_;  // by stack and unit
  PinnedBuffer outside_;
  std::size_t size_bytes_ = 0;
};

}  // namespace lamina
