#include "comm/topology.h"

#include "base/error.h"

namespace lamina {
namespace {

constexpr std::size_t kMostRanks = 4096;

void check_size(std::string_view flag, std::size_t size) {
  if (size < 1 || size > kMostRanks)
    fail(ErrorCode::invalid_argument, "{} {}: expected 1 to {} ranks", flag, size, kMostRanks);
}

/// The sizes with the shard group's filled in. Throws invalid_argument.
ParallelSizes checked(ParallelSizes sizes) {
  check_size("--data-parallel-size", sizes.data);
  check_size("--usp", sizes.sequence);
  check_size("--tensor-parallel-size", sizes.tensor);
  if (!sizes.use_hsdp) {
    if (sizes.hsdp_shard != 0)
      fail(ErrorCode::invalid_argument, "--hsdp-shard-size {}: nothing is sharded without --use-hsdp; add it",
           sizes.hsdp_shard);
    return sizes;
  }
  expects(sizes.data == 1 && sizes.tensor == 1, "HSDP with data or tensor parallelism passed the compatibility matrix");
  if (sizes.hsdp_shard == 0) sizes.hsdp_shard = sizes.sequence;
  check_size("--hsdp-shard-size", sizes.hsdp_shard);
  if (sizes.sequence > 1 && sizes.sequence % sizes.hsdp_shard != 0)
    fail(ErrorCode::invalid_argument, "--hsdp-shard-size {}: expected a divisor of --usp {}", sizes.hsdp_shard,
         sizes.sequence);
  return sizes;
}

/// Ranks of a replica. HSDP alone has as many as the shard group: they compute the same.
std::size_t ranks_of_replica(const ParallelSizes& sizes) {
  if (sizes.use_hsdp && sizes.sequence == 1) return sizes.hsdp_shard;
  return sizes.sequence * sizes.tensor;
}

}  // namespace

std::string_view to_string(GroupKind kind) noexcept {
  switch (kind) {
    case GroupKind::data: return "data";
    case GroupKind::sequence: return "sequence";
    case GroupKind::tensor: return "tensor";
    case GroupKind::shard: return "shard";
    case GroupKind::replica: return "replica";
    case GroupKind::offload: return "offload";
    case GroupKind::world: return "world";
  }
  return "unknown";
}

Topology::Topology(const ParallelSizes& sizes) : sizes_(checked(sizes)), replica_size_(ranks_of_replica(sizes_)) {
  // Three factors of at most 2^12: no product overflows.
  if (world_size() > kMostRanks)
    fail(ErrorCode::invalid_argument,
         "--data-parallel-size {} x --usp {} x --tensor-parallel-size {} are {} ranks; expected at most {}",
         sizes_.data, sizes_.sequence, sizes_.tensor, world_size(), kMostRanks);
}

std::size_t Topology::replica_of(std::size_t rank) const {
  expects(rank < world_size(), "rank {} of a world of {}", rank, world_size());
  return rank / replica_size_;
}

RankGroup Topology::strided(std::size_t first, std::size_t stride, std::size_t count, std::size_t rank) const {
  RankGroup group;
  group.ranks.reserve(count);
  for (std::size_t i = 0; i < count; ++i) group.ranks.push_back(first + i * stride);
  group.position = (rank - first) / stride;
  return group;
}

RankGroup Topology::group(GroupKind kind, std::size_t rank) const {
  const std::size_t replica_first = replica_of(rank) * replica_size_;
  switch (kind) {
    case GroupKind::data: return strided(rank - replica_first, replica_size_, sizes_.data, rank);
    case GroupKind::sequence:
      return strided(sizes_.sequence == 1 ? rank : replica_first + rank % sizes_.tensor, sizes_.tensor, sizes_.sequence,
                     rank);
    case GroupKind::tensor: return strided(rank - rank % sizes_.tensor, 1, sizes_.tensor, rank);
    case GroupKind::shard:
      return sizes_.use_hsdp ? strided(rank - rank % sizes_.hsdp_shard, 1, sizes_.hsdp_shard, rank)
                             : strided(rank, 1, 1, rank);
    case GroupKind::replica: return strided(replica_first, 1, replica_size_, rank);
    case GroupKind::offload:
      if (sizes_.data > 1) return group(GroupKind::data, rank);
      return group(GroupKind::sequence, rank);
    case GroupKind::world: return strided(0, 1, world_size(), rank);
  }
  fail(ErrorCode::internal, "no group of kind {}", static_cast<int>(kind));
}

std::vector<RankGroup> Topology::groups(GroupKind kind) const {
  std::vector<RankGroup> result;
  for (std::size_t rank = 0; rank < world_size(); ++rank) {
    RankGroup group = this->group(kind, rank);
    if (group.position == 0) result.push_back(std::move(group));
  }
  return result;
}

RankGroup Topology::lockstep_group(std::size_t rank, bool gathers_weights) const {
  return group(gathers_weights ? GroupKind::world : GroupKind::replica, rank);
}

void Topology::check_world_size(std::size_t found, std::string_view started_by) const {
  if (found == world_size()) return;
  if (sizes_.use_hsdp && sizes_.sequence == 1)
    fail(ErrorCode::incompatible, "{} started {} ranks; --hsdp-shard-size {} takes {}", started_by, found,
         sizes_.hsdp_shard, world_size());
  fail(ErrorCode::incompatible,
       "{} started {} ranks; --data-parallel-size {} x --usp {} x --tensor-parallel-size {} takes {}", started_by,
       found, sizes_.data, sizes_.sequence, sizes_.tensor, world_size());
}

}  // namespace lamina
