#pragma once

#include <cstddef>
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
#include "offload/unit_source.h"
#include "weights/weight_binding.h"

namespace lamina {

/// A private pinned shard of every image of a part; all ranks of the communicator hold the images together. A fetch
/// copies the rank's piece of each chunk to its place in the image and gathers the chunk there, in place, while the
/// next one is on the link:
///
///     copy:  wait free · copy piece 0 · record copied · copy piece 1 · record copied · ...
///     comm:              wait copied · all-gather chunk 0 · wait copied · all-gather chunk 1 · ... · record ready
///
/// Every rank fetches the same images in the same order. Where a fetch fails the source fetches no more: the others
/// wait in collectives that this rank has not entered, so its owner ends the group.
class GatheredSource final : public UnitSource {
 public:
  /// Host bytes that a rank's source of this plan takes.
  static std::size_t shard_bytes(const OffloadPlan& plan, const Sharding& sharding);

  /// Of a group of at least two. Packs the rank's shards; of no image more than its pieces are read. `weights` outlives
  /// it and has no other user. Throws as `pack_weight` does, and out_of_host_memory.
  GatheredSource(Device& device, Communicator& weights, const OffloadPlan& plan,
                 const std::vector<WeightBinding>& bindings, std::size_t chunks);

  PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& copy) override;
  void fetch_outside_async(std::byte* destination, Stream& copy) override;
  const Gathering* gathering() const noexcept override { return &gathering_; }
  void check() const override;
  std::size_t host_bytes() const override { return host_bytes_; }

 private:
  struct Shard {
    ShardLayout layout;
    PinnedBuffer bytes;
  };

  Shard pack(Device& device, const ImagePacker& packer);
  void fetch(const Shard& shard, std::byte* destination, Stream& copy, std::string_view label);

  Communicator& weights_;
  Sharding sharding_;
  std::vector<std::vector<Shard>> units_;  // by stack and unit
  Shard outside_;
  std::size_t host_bytes_ = 0;
  std::optional<Error> failure_;
  EventPool events_;
  std::unique_ptr<Stream> comm_;  // goes first: its work uses all of the above
  Gathering gathering_;
};

}  // namespace lamina
