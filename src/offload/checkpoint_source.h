#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "offload/offload_plan.h"
#include "offload/staging.h"
#include "offload/unit_source.h"
#include "weights/checkpoint.h"

namespace lamina {

/// Weights read from the mapped checkpoint through staging buffers, keeping no copy on the host: for parts that are
/// loaded to the device once and stay. The launching thread packs, so this source is not for streaming. Of tensors that
/// are cut for a rank, one part at a time is copied together on the host.
/// Plan and checkpoint must outlive it.
class CheckpointSource final : public UnitSource {
 public:
  static constexpr std::size_t kStagingBytes = 4 * kMiB;

  /// All fetches go to `stream`.
  CheckpointSource(Device& device, Stream& stream, const OffloadPlan& plan, const Checkpoint& checkpoint)
      : staging_(device, stream, kStagingBytes), plan_(plan), checkpoint_(checkpoint) {}

  void fetch_async(UnitRef unit, std::byte* destination, Stream& stream) override;
  void fetch_outside_async(std::byte* destination, Stream& stream) override;
  std::size_t host_bytes() const override { return StagingUploader::host_bytes(kStagingBytes); }

 private:
  void upload(const std::vector<ParameterGroup>& groups, std::byte* destination, Stream& stream);

  StagingUploader staging_;
  const OffloadPlan& plan_;
  const Checkpoint& checkpoint_;
};

}  // namespace lamina
