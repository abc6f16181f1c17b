#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lamina/parallel.h"

namespace lamina {

/// Ranks that work together, ascending, and where one of them stands among them.
struct RankGroup {
  std::vector<std::size_t> ranks;
  std::size_t position = 0;

  std::size_t size() const noexcept { return ranks.size(); }
  bool operator==(const RankGroup&) const = default;
};

enum class GroupKind {
  data,      ///< the same place in all replicas
  sequence,  ///< ranks that hold the same weights and different tokens of one sample
  tensor,    ///< ranks that hold different weights and the same tokens
  shard,     ///< HSDP: ranks that hold one copy of the parameters together
  replica,   ///< all ranks that work on one sample
  offload,   ///< DLO: ranks that hold one copy of the streamed weights together, and gather them
  world,
};

std::string_view to_string(GroupKind kind) noexcept;

/// Which rank stands where. Tensor parallel ranks are neighbours, then come sequence parallel ones, then replicas:
///
///     rank = (replica * sequence + place) * tensor + slice
///
/// A pure function of the sizes, so all ranks derive the same groups without talking. Immutable; thread safe.
class Topology {
 public:
  /// Throws invalid_argument naming the flag, what was found and what was expected. Which kinds may be combined is the
  /// compatibility matrix's affair and was settled before: HSDP comes without data and tensor parallelism.
  explicit Topology(const ParallelSizes& sizes);

  const ParallelSizes& sizes() const noexcept { return sizes_; }
  std::size_t world_size() const noexcept { return replica_size_ * sizes_.data; }
  std::size_t replica_count() const noexcept { return sizes_.data; }
  std::size_t replica_size() const noexcept { return replica_size_; }
  std::size_t replica_of(std::size_t rank) const;

  /// The group of a rank. Where a kind of parallelism is not used it is the rank alone.
  ///
  /// The offload group is the data group where there are several replicas, else the sequence group, else the rank
  /// alone. Tensor parallel ranks hold different weights and are never in one.
  RankGroup group(GroupKind kind, std::size_t rank) const;
  /// All groups of a kind, by their first rank: every rank is in one of them.
  std::vector<RankGroup> groups(GroupKind kind) const;

  /// The ranks that go from pass to pass together, because collectives tie them to each other: all of them where
  /// weights are gathered over the replicas, else those of a replica.
  RankGroup lockstep_group(std::size_t rank, bool gathers_weights) const;

  /// Throws incompatible naming the flags unless `found` ranks, counted by whoever started them, are what the sizes
  /// take.
  void check_world_size(std::size_t found, std::string_view started_by) const;

 private:
  RankGroup strided(std::size_t first, std::size_t stride, std::size_t count, std::size_t rank) const;

  ParallelSizes sizes_;
  std::size_t replica_size_;
};

}  // namespace lamina
