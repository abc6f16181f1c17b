#pragma once

#include <cstddef>
#include <vector>

#include "device/device.h"
#include "offload/image_packer.h"
#include "offload/offload_plan.h"
#include "offload/unit_source.h"
#include "weights/weight_binding.h"

namespace lamina {

/// Private pinned images of all weights of a part, packed once from its checkpoint: a fetch is one large copy.
class PinnedSource final : public UnitSource {
 public:
  /// Pinned bytes that a source of this plan takes.
  static std::size_t image_bytes(const OffloadPlan& plan);

  /// Reads every tensor of the plan. Throws as `pack_weight` does, and out_of_host_memory.
  PinnedSource(Device& device, const OffloadPlan& plan, const std::vector<WeightBinding>& bindings);

  PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& stream) override;
  void fetch_outside_async(std::byte* destination, Stream& stream) override;
  std::size_t host_bytes() const override { return host_bytes_; }

 private:
  PinnedBuffer pack(Device& device, const ImagePacker& packer);

  std::vector<std::vector<PinnedBuffer>> units_;  // by stack and unit
  PinnedBuffer outside_;
  std::size_t host_bytes_ = 0;
};

}  // namespace lamina
