#include "engine/ranks/rank_groups.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

/// The local ranks of a group, which are neighbours in it as they are in the world.
std::vector<std::size_t> local_of(std::span<const std::size_t> ranks, const LocalRanks& local) {
  std::vector<std::size_t> result;
  std::ranges::copy_if(ranks, std::back_inserter(result), [&](std::size_t rank) { return local.contains(rank); });
  return result;
}

class GroupFormer {
 public:
  GroupFormer(RankConnector& connector, const Topology& topology)
      : connector_(connector), topology_(topology), local_(connector.local_ranks()), ends_(local_.count) {
    topology.check_world_size(connector.world_size(), "the launcher");
  }

  void connect_devices(const std::string& name, GroupKind kind, std::unique_ptr<Communicator> RankEnds::*end) {
    for (const RankGroup& group : topology_.groups(kind)) {
      if (group.size() == 1) continue;
      hand_out(connector_.connect_devices(name, group.ranks), group.ranks, end);
    }
  }

  std::vector<std::unique_ptr<LockstepGroup>> lockstep_groups(bool gathers_weights) {
    std::vector<std::unique_ptr<LockstepGroup>> groups;
    for (std::size_t first = 0; first < topology_.world_size();) {
      std::vector<std::size_t> ranks = topology_.lockstep_group(first, gathers_weights).ranks;
      hand_out(connector_.connect_hosts("rounds", ranks), ranks, &RankEnds::rounds);
      first = ranks.back() + 1;
      groups.push_back(lockstep_group(groups.size(), std::move(ranks)));
    }
    return groups;
  }

 private:
  template <typename End>
  void hand_out(std::vector<std::unique_ptr<End>> made, const std::vector<std::size_t>& ranks,
                std::unique_ptr<End> RankEnds::*end) {
    const std::vector<std::size_t> mine = local_of(ranks, local_);
    expects(made.size() == mine.size(), "{} ends of a group with {} local ranks", made.size(), mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) ends_[mine[i] - local_.first].*end = std::move(made[i]);
  }

  /// Takes the ends of its ranks, whose groups are all formed.
  std::unique_ptr<LockstepGroup> lockstep_group(std::size_t index, std::vector<std::size_t> ranks) {
    auto group = std::make_unique<LockstepGroup>();
    const std::vector<std::size_t> mine = local_of(ranks, local_);
    group->index = index;
    group->ranks = std::move(ranks);
    group->local = {mine.empty() ? 0 : mine.front(), mine.size()};
    for (const std::size_t rank : mine) group->ends.push_back(std::move(ends_[rank - local_.first]));
    return group;
  }

  RankConnector& connector_;
  const Topology& topology_;
  LocalRanks local_;
  std::vector<RankEnds> ends_;
};

}  // namespace

void RankEnds::abort(const Error& reason) noexcept {
  for (const std::unique_ptr<Communicator>* group : {&weights, &tensor, &sequence})
    if (*group) (*group)->abort(reason);
  if (rounds) rounds->abort(reason);
}

void LockstepGroup::abort(const Error& reason) noexcept {
  for (RankEnds& end : ends) end.abort(reason);
}

std::vector<std::unique_ptr<LockstepGroup>> form_groups(RankConnector& connector, const Topology& topology,
                                                        std::optional<GroupKind> weights) {
  GroupFormer former(connector, topology);
  if (weights) former.connect_devices("weights", *weights, &RankEnds::weights);
  former.connect_devices("tensor", GroupKind::tensor, &RankEnds::tensor);
  former.connect_devices("sequence", GroupKind::sequence, &RankEnds::sequence);
  return former.lockstep_groups(weights.has_value());
}

}  // namespace lamina
