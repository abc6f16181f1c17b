#include "offload/gathered_source.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"
#include "offload/mapped_source.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

/// The image's bytes from `offset` on, and zeros behind its end.
void pack_padded(const ImagePacker& packer, std::size_t offset, std::span<std::byte> destination) {
  const std::size_t begin = std::min(offset, packer.size_bytes());
  const std::size_t size = std::min(packer.size_bytes() - begin, destination.size());
  packer.pack(begin, destination.first(size));
  std::ranges::fill(destination.subspan(size), std::byte{0});
}

/// Shows the layout of each image of the plan.
void for_each_layout(const OffloadPlan& plan, const Sharding& sharding,
                     const std::function<void(const ShardLayout&)>& show) {
  const auto show_groups = [&](const std::vector<ParameterGroup>& groups) {
    show(ShardLayout::of(UnitLayout::of(groups).size_bytes, sharding));
  };
  show_groups(plan.outside);
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) show_groups(unit.groups);
}

/// Of each of the two staging buffers through which shards come to the device.
std::size_t loading_buffer_bytes(const OffloadPlan& plan, const Sharding& sharding) {
  std::size_t largest = 0;
  for_each_layout(plan, sharding, [&](const ShardLayout& layout) { largest = std::max(largest, layout.piece_bytes); });
  return std::min(largest, MappedSource::kStagingBytes);
}

}  // namespace

std::size_t GatheredSource::shard_bytes(const OffloadPlan& plan, const Sharding& sharding) {
  std::size_t size = 0;
  for_each_layout(plan, sharding, [&](const ShardLayout& layout) { size += layout.shard_bytes(); });
  return size;
}

std::size_t GatheredSource::loading_bytes(const OffloadPlan& plan, const Sharding& sharding) {
  return StagingUploader::host_bytes(loading_buffer_bytes(plan, sharding));
}

GatheredSource::GatheredSource(Device& device, Communicator& weights, const OffloadPlan& plan,
                               const std::vector<WeightBinding>& bindings, const GatherOptions& options)
    : weights_(weights),
      sharding_{weights.size(), options.chunks},
      place_(options.shards),
      events_(device),
      comm_(device.create_stream("weight gather")),
      completion_{{comm_.get()}, weights.size()} {
  expects(weights.size() > 1, "a group of one rank gathers nothing");
  const PartPackers packers(plan, bindings);
  if (place_ == ShardPlace::host) {
    pack_all(packers, [&](const ImagePacker& packer) { return pack_pinned(device, packer); });
  } else {
    StagingUploader uploader(device, *comm_, loading_buffer_bytes(plan, sharding_));
    pack_all(packers, [&](const ImagePacker& packer) { return pack_on_device(device, uploader, packer); });
    comm_->synchronize();
  }
}

void GatheredSource::pack_all(const PartPackers& packers, const PackShard& pack) {
  outside_ = pack(packers.outside);
  for (const std::vector<ImagePacker>& stack : packers.units) {
    std::vector<Shard>& shards = units_.emplace_back();
    for (const ImagePacker& unit : stack) shards.push_back(pack(unit));
  }
}

GatheredSource::Shard GatheredSource::pack_pinned(Device& device, const ImagePacker& packer) {
  Shard shard{ShardLayout::of(packer.size_bytes(), sharding_), {}, {}, {}};
  const std::size_t piece = shard.layout.piece_bytes;
  shard.pinned = device.allocate_pinned(shard.layout.shard_bytes(), "weights");
  shard.bytes = shard.pinned.data();
  for (std::size_t chunk = 0; chunk < sharding_.chunks; ++chunk)
    pack_padded(packer, shard.layout.piece_offset(chunk, weights_.rank()), {shard.bytes + chunk * piece, piece});
  host_bytes_ += shard.pinned.size_bytes();
  return shard;
}

GatheredSource::Shard GatheredSource::pack_on_device(Device& device, StagingUploader& uploader,
                                                     const ImagePacker& packer) {
  Shard shard{ShardLayout::of(packer.size_bytes(), sharding_), {}, {}, {}};
  const std::size_t piece = shard.layout.piece_bytes;
  shard.on_device = device.allocate(shard.layout.shard_bytes(), "shards");
  shard.bytes = shard.on_device.data();
  shard.watched = WatchedRange(device.order(), {shard.bytes, shard.on_device.size_bytes()}, "shards");
  for (std::size_t chunk = 0; chunk < sharding_.chunks; ++chunk) {
    const std::size_t begin = shard.layout.piece_offset(chunk, weights_.rank());
    const auto fill = [&](std::size_t offset, std::span<std::byte> destination) {
      pack_padded(packer, begin + offset, destination);
    };
    uploader.upload(shard.bytes + chunk * piece, piece, fill, "load shard");
  }
  return shard;
}

PackedPieces GatheredSource::fetch_async(UnitRef unit, std::byte* destination, Stream& copy) {
  fetch(units_.at(unit.stack).at(unit.unit), destination, copy, "fetch unit");
  return {};
}

void GatheredSource::fetch_outside_async(std::byte* destination, Stream& copy) {
  fetch(outside_, destination, copy, "fetch outside");
}

void GatheredSource::fetch(const Shard& shard, std::byte* destination, Stream& copy, std::string_view label) {
  const ShardLayout& layout = shard.layout;
  check();
  try {
    for (std::size_t chunk = 0; chunk < sharding_.chunks; ++chunk) {
      const std::shared_ptr<Event> copied = events_.take("piece copied");
      std::byte* place = destination + layout.piece_offset(chunk, weights_.rank());
      const std::byte* piece = shard.bytes + chunk * layout.piece_bytes;
      if (place_ == ShardPlace::host)
        copy.copy_to_device_async(place, piece, layout.piece_bytes, label);
      else
        copy.copy_within_device_async(place, piece, layout.piece_bytes, label);
      copy.record(*copied);
      comm_->wait(*copied);
      weights_.all_gather_async(destination + chunk * layout.chunk_bytes(), layout.piece_bytes, *comm_);
    }
  } catch (const Error& error) {
    failure_ = error;
    throw;
  }
}

void GatheredSource::check() const {
  if (failure_) throw *failure_;
  weights_.check();
}

}  // namespace lamina
