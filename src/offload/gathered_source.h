#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "device/stream.h"
#include "offload/event_pool.h"
#include "offload/image_packer.h"
#include "offload/offload_plan.h"
#include "offload/shard_layout.h"
#include "offload/staging.h"
#include "offload/unit_source.h"
#include "offload/watched_range.h"
#include "weights/weight_binding.h"

namespace lamina {

struct GatherOptions {
  std::size_t chunks = 1;
  ShardPlace shards = ShardPlace::host;
};

/// A private shard of every image of a part, in pinned memory or on the device; all ranks of the communicator hold the
/// images together. A fetch copies the rank's piece of each chunk to its place in the image and gathers the chunk
/// there, in place, while the next one is on the link:
///
///     copy:  wait free · copy piece 0 · record copied · copy piece 1 · record copied · ...
///     comm:              wait copied · all-gather chunk 0 · wait copied · all-gather chunk 1 · ... · record ready
///
/// Every rank fetches the same images in the same order. Where a fetch fails the source fetches no more: the others
/// wait in collectives that this rank has not entered, so its owner ends the group.
class GatheredSource final : public UnitSource {
 public:
  /// Bytes of a rank's shards of this plan, wherever they are.
  static std::size_t shard_bytes(const OffloadPlan& plan, const Sharding& sharding);
  /// Pinned bytes that bringing them to the device takes for as long as it lasts.
  static std::size_t loading_bytes(const OffloadPlan& plan, const Sharding& sharding);

  /// Of a group of at least two. Packs the rank's shards; of no image more than its pieces are read. Shards for the
  /// device are there on return. `weights` outlives it and has no other user. Throws as `pack_weight` does,
  /// out_of_host_memory, and with shards on the device out_of_device_memory or device.
  GatheredSource(Device& device, Communicator& weights, const OffloadPlan& plan,
                 const std::vector<WeightBinding>& bindings, const GatherOptions& options);

  PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& copy) override;
  void fetch_outside_async(std::byte* destination, Stream& copy) override;
  const Completion* completion() const noexcept override { return &completion_; }
  void check() const override;
  std::size_t host_bytes() const override { return host_bytes_; }

 private:
  /// Of one image. `bytes` belong to one of the buffers.
  struct Shard {
    ShardLayout layout;
    PinnedBuffer pinned;
    DeviceBuffer on_device;
    WatchedRange watched;
    std::byte* bytes = nullptr;
  };
  using PackShard = std::function<Shard(const ImagePacker&)>;

  void pack_all(const PartPackers& packers, const PackShard& pack);
  Shard pack_pinned(Device& device, const ImagePacker& packer);
  Shard pack_on_device(Device& device, StagingUploader& uploader, const ImagePacker& packer);
  void fetch(const Shard& shard, std::byte* destination, Stream& copy, std::string_view label);

  Communicator& weights_;
  Sharding sharding_;
  ShardPlace place_;
  std::vector<std::vector<Shard>> units_;  // by stack and unit
  Shard outside_;
  std::size_t host_bytes_ = 0;
  std::optional<Error> failure_;
  EventPool events_;
  std::unique_ptr<Stream> comm_;  // goes first: its work uses all of the above
  Completion completion_;
};

}  // namespace lamina
