#pragma once

#include <cstddef>
#include <vector>

#include "device/device.h"
#include "offload/offload_plan.h"
#include "offload/unit_layout.h"
#include "offload/unit_source.h"
#include "weights/checkpoint.h"

namespace lamina {

/// Private pinned images of all weights of a part, packed once from its checkpoint: a fetch is one large copy.
class PinnedSource final : public UnitSource {
 public:
  /// Pinned bytes that a source of this plan takes.
  static std::size_t image_bytes(const OffloadPlan& plan);

  /// Reads every tensor the plan names. Throws not_found or incompatible naming file and tensor, out_of_host_memory.
  PinnedSource(Device& device, const OffloadPlan& plan, const Checkpoint& checkpoint);

  void fetch_async(UnitRef unit, std::byte* destination, Stream& stream) override;
  void fetch_outside_async(std::byte* destination, Stream& stream) override;
  std::size_t host_bytes() const override { return host_bytes_; }

 private:
  PinnedBuffer pack(Device& device, const std::vector<ParameterGroup>& groups, const Checkpoint& checkpoint);

  std::vector<std::vector<PinnedBuffer>> units_;  // by stack and unit
  PinnedBuffer outside_;
  std::size_t host_bytes_ = 0;
};

}  // namespace lamina
