#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/topology.h"

namespace lamina::testing {

enum class CollectiveOp : std::uint8_t { all_gather, all_reduce, all_to_all, agree };

/// One collective, as a rank entered it.
struct CollectiveRecord {
  GroupKind kind = GroupKind::world;  ///< with `first_rank`: which communicator
  std::size_t first_rank = 0;
  std::size_t sequence = 0;  ///< on that communicator
  CollectiveOp op = CollectiveOp::all_gather;
  std::size_t bytes = 0;
  std::uint64_t tag = 0;  ///< what it is for: pass, unit, sample

  bool operator==(const CollectiveRecord&) const = default;
};

std::string describe(const CollectiveRecord& record);

/// What one rank entered, in its order: weight gathers and model collectives have one order, rounds another.
struct RankLedger {
  std::vector<CollectiveRecord> data;
  std::vector<CollectiveRecord> control;
};

/// Compares the ledgers of all ranks. On each communicator its ranks entered the same collectives in the same order;
/// and the ranks of a replica entered theirs, over all kinds of communicator, in one order. `cut` allows for ledgers
/// that end early, after a fault. One sentence for each difference.
std::vector<std::string> compare_ledgers(const Topology& topology, const std::vector<RankLedger>& ledgers, bool cut);

}  // namespace lamina::testing
