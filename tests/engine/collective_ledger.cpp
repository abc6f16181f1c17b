#include "engine/collective_ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace lamina::testing {
namespace {

using Records = std::vector<CollectiveRecord>;

/// A record without what differs between communicators of one kind.
CollectiveRecord of_any_communicator(CollectiveRecord record) {
  record.first_rank = 0;
  return record;
}

void compare(const Records& one, const Records& other, const std::string& where, bool cut,
             std::vector<std::string>& differences) {
  const std::size_t common = std::min(one.size(), other.size());
  for (std::size_t i = 0; i < common; ++i)
    if (one[i] != other[i]) {
      differences.push_back(
          fmt::format("{}, collective {}: {} and {}", where, i, describe(one[i]), describe(other[i])));
      return;
    }
  if (!cut && one.size() != other.size())
    differences.push_back(fmt::format("{}: {} and {} collectives", where, one.size(), other.size()));
}

Records on_communicator(const Records& records, GroupKind kind, std::size_t first_rank) {
  Records result;
  std::copy_if(records.begin(), records.end(), std::back_inserter(result),
               [&](const CollectiveRecord& record) { return record.kind == kind && record.first_rank == first_rank; });
  return result;
}

Records without_communicators(const Records& records) {
  Records result;
  std::transform(records.begin(), records.end(), std::back_inserter(result), of_any_communicator);
  return result;
}

}  // namespace

std::string describe(const CollectiveRecord& record) {
  static constexpr const char* kOps[] = {"all-gather", "all-reduce", "all-to-all", "agree"};
  return fmt::format("{} #{} of {} bytes for {:x} on {} {}", kOps[static_cast<std::size_t>(record.op)], record.sequence,
                     record.bytes, record.tag, to_string(record.kind), record.first_rank);
}

std::vector<std::string> compare_ledgers(const Topology& topology, const std::vector<RankLedger>& ledgers, bool cut) {
  std::vector<std::string> differences;
  for (const GroupKind kind : {GroupKind::data, GroupKind::sequence, GroupKind::tensor, GroupKind::shard})
    for (const RankGroup& group : topology.groups(kind)) {
      const Records first = on_communicator(ledgers[group.ranks[0]].data, kind, group.ranks[0]);
      for (const std::size_t rank : group.ranks)
        compare(first, on_communicator(ledgers[rank].data, kind, group.ranks[0]),
                fmt::format("{} group of ranks {} and {}", to_string(kind), group.ranks[0], rank), cut, differences);
    }
  for (const RankGroup& replica : topology.groups(GroupKind::replica)) {
    const Records first = without_communicators(ledgers[replica.ranks[0]].data);
    for (const std::size_t rank : replica.ranks)
      compare(first, without_communicators(ledgers[rank].data),
              fmt::format("replica of ranks {} and {}", replica.ranks[0], rank), cut, differences);
  }
  for (std::size_t rank = 1; rank < ledgers.size(); ++rank)
    compare(ledgers[0].control, ledgers[rank].control, fmt::format("rounds of ranks 0 and {}", rank), cut, differences);
  return differences;
}

}  // namespace lamina::testing
