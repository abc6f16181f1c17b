#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"
#include "offload/offload_plan.h"
#include "offload/pinned_images.h"
#include "offload/unit_source.h"
#include "weights/weight_binding.h"

namespace lamina {

/// Pinned images of all weights of a part: a fetch is one large copy.
class PinnedSource final : public UnitSource {
 public:
  /// Of images of its own. Reads every tensor of the plan. Throws as `PinnedImages` does.
  PinnedSource(Device& device, const OffloadPlan& plan, const std::vector<WeightBinding>& bindings);
  /// Of images that it shares with others, and that do not count as its own.
  explicit PinnedSource(std::shared_ptr<const PinnedImages> shared) : images_(std::move(shared)) {}

  PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& stream) override;
  void fetch_outside_async(std::byte* destination, Stream& stream) override;
  std::size_t host_bytes() const override { return own_bytes_; }

 private:
  std::shared_ptr<const PinnedImages> images_;
  std::size_t own_bytes_ = 0;
};

}  // namespace lamina
