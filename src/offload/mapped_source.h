#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/device.h"
#include "device/event.h"
#include "device/stream.h"
#include "offload/event_pool.h"
#include "offload/image_packer.h"
#include "offload/offload_plan.h"
#include "offload/unit_source.h"
#include "offload/watched_range.h"
#include "weights/weight_binding.h"

namespace lamina {

/// Weights that stay in the checkpoint's files. Each fetch packs its image anew, through two pinned staging buffers:
/// while one is on the link, the other is filled. Packing is work of the source's own stream, "packer", in the order in
/// which fetches were asked for, so the launching thread never packs, and all waits are events:
///
///     packer:  wait copied[b] · pack piece -> staging b · record packed
///     copy:    wait packed    · copy staging b -> device · record copied[b]
///
/// A file that was changed or cut since it was opened is met when it is read, and fails the source for good. Plan and
/// checkpoint outlive it; streams given to fetches outlive it too.
class MappedSource final : public UnitSource {
 public:
  static constexpr std::size_t kStagingBytes = 4 * kMiB;  ///< of each buffer; docs/adr/0005

  /// A staging buffer has at most `buffer_bytes`, a multiple of UnitLayout::kAlignment. Throws internal where a tensor
  /// of the plan is not bound, out_of_host_memory.
  MappedSource(Device& device, const OffloadPlan& plan, std::vector<WeightBinding> bindings,
               std::size_t buffer_bytes = kStagingBytes);

  /// Pinned bytes that a source of this plan takes: both buffers.
  static std::size_t staging_bytes(const OffloadPlan& plan);

  PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& stream) override;
  void fetch_outside_async(std::byte* destination, Stream& stream) override;
  void check() const override;
  /// Of staging.
  std::size_t host_bytes() const override;

 private:
  struct Buffer {
    PinnedBuffer memory;
    WatchedRange watched;
    std::unique_ptr<Event> copied;
  };

  PackedPieces fetch(const ImagePacker& image, const ImagePacker* next, std::byte* destination, Stream& stream,
                     std::string_view label);
  void pack(const ImagePacker& image, const ImagePacker* next, std::size_t offset_bytes,
            std::span<std::byte> destination);
  void set_failure(Error error);

  std::vector<WeightBinding> bindings_;
  PartPackers packers_;
  EventPool events_;
  std::array<Buffer, 2> buffers_;
  std::size_t next_buffer_ = 0;

  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;

  std::unique_ptr<Stream> packer_;  // goes first: its work uses all of the above
};

}  // namespace lamina
