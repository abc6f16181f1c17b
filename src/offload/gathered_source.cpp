#include "offload/gathered_source.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/error.h"
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

}  // namespace

std::size_t GatheredSource::shard_bytes(const OffloadPlan& plan, const Sharding& sharding) {
  const auto of_groups = [&](const std::vector<ParameterGroup>& groups) {
    return ShardLayout::of(UnitLayout::of(groups).size_bytes, sharding).shard_bytes();
  };
  std::size_t size = of_groups(plan.outside);
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) size += of_groups(unit.groups);
  return size;
}

GatheredSource::GatheredSource(Device& device, Communicator& weights, const OffloadPlan& plan,
                               const std::vector<WeightBinding>& bindings, std::size_t chunks)
    : weights_(weights),
      sharding_{weights.size(), chunks},
      events_(device),
      comm_(device.create_stream("weight gather")),
      gathering_{*comm_, weights.size()} {
  expects(weights.size() > 1, "a group of one rank gathers nothing");
  const PartPackers packers(plan, bindings);
  outside_ = pack(device, packers.outside);
  for (const std::vector<ImagePacker>& stack : packers.units) {
    std::vector<Shard>& shards = units_.emplace_back();
    for (const ImagePacker& unit : stack) shards.push_back(pack(device, unit));
  }
}

GatheredSource::Shard GatheredSource::pack(Device& device, const ImagePacker& packer) {
  Shard shard{ShardLayout::of(packer.size_bytes(), sharding_), {}};
  const std::size_t piece = shard.layout.piece_bytes;
  shard.bytes = device.allocate_pinned(shard.layout.shard_bytes(), "weights");
  for (std::size_t chunk = 0; chunk < sharding_.chunks; ++chunk)
    pack_padded(packer, shard.layout.piece_offset(chunk, weights_.rank()), {shard.bytes.data() + chunk * piece, piece});
  host_bytes_ += shard.bytes.size_bytes();
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
      copy.copy_to_device_async(destination + layout.piece_offset(chunk, weights_.rank()),
                                shard.bytes.data() + chunk * layout.piece_bytes, layout.piece_bytes, label);
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
