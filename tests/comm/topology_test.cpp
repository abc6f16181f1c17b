#include "comm/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/expect_error.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

std::vector<std::size_t> ranks(const Topology& topology, GroupKind kind, std::size_t rank) {
  return topology.group(kind, rank).ranks;
}

std::vector<std::vector<std::size_t>> all_ranks(const Topology& topology, GroupKind kind) {
  std::vector<std::vector<std::size_t>> result;
  for (const RankGroup& group : topology.groups(kind)) result.push_back(group.ranks);
  return result;
}

TEST(Topology, OneRankIsAloneInEveryGroup) {
  const Topology topology({});
  EXPECT_EQ(topology.world_size(), 1u);
  for (const GroupKind kind : {GroupKind::data, GroupKind::sequence, GroupKind::tensor, GroupKind::shard,
                               GroupKind::replica, GroupKind::offload, GroupKind::world})
    EXPECT_THAT(ranks(topology, kind, 0), ElementsAre(0)) << to_string(kind);
}

TEST(Topology, TensorRanksAreNeighboursThenSequenceThenReplicas) {
  const Topology topology({.data = 2, .sequence = 3, .tensor = 2});
  EXPECT_EQ(topology.world_size(), 12u);
  EXPECT_EQ(topology.replica_size(), 6u);
  EXPECT_THAT(all_ranks(topology, GroupKind::tensor),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7), ElementsAre(8, 9),
                          ElementsAre(10, 11)));
  EXPECT_THAT(all_ranks(topology, GroupKind::sequence),
              ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5), ElementsAre(6, 8, 10), ElementsAre(7, 9, 11)));
  EXPECT_THAT(all_ranks(topology, GroupKind::data),
              ElementsAre(ElementsAre(0, 6), ElementsAre(1, 7), ElementsAre(2, 8), ElementsAre(3, 9),
                          ElementsAre(4, 10), ElementsAre(5, 11)));
  EXPECT_THAT(all_ranks(topology, GroupKind::replica),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(6, 7, 8, 9, 10, 11)));
  EXPECT_EQ(topology.replica_of(5), 0u);
  EXPECT_EQ(topology.replica_of(6), 1u);
}

TEST(Topology, EveryRankKnowsItsPlaceInExactlyOneGroupOfEachKind) {
  for (const std::size_t data : {1, 2, 3, 4})
    for (const std::size_t sequence : {1, 2, 4})
      for (const std::size_t tensor : {1, 2, 3}) {
        const Topology topology({.data = data, .sequence = sequence, .tensor = tensor});
        for (const GroupKind kind : {GroupKind::data, GroupKind::sequence, GroupKind::tensor, GroupKind::shard,
                                     GroupKind::replica, GroupKind::offload, GroupKind::world}) {
          std::multiset<std::size_t> seen;
          for (const RankGroup& group : topology.groups(kind))
            for (std::size_t place = 0; place < group.size(); ++place) {
              seen.insert(group.ranks[place]);
              const RankGroup own = topology.group(kind, group.ranks[place]);
              EXPECT_EQ(own.ranks, group.ranks);
              EXPECT_EQ(own.position, place);
            }
          EXPECT_EQ(seen.size(), topology.world_size());
          EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), topology.world_size());
        }
      }
}

TEST(Topology, OffloadGroupIsDataThenSequenceAndNeverTensor) {
  EXPECT_THAT(ranks(Topology({.data = 2, .sequence = 2, .tensor = 2}), GroupKind::offload, 3), ElementsAre(3, 7));
  EXPECT_THAT(ranks(Topology({.sequence = 2, .tensor = 2}), GroupKind::offload, 3), ElementsAre(1, 3));
  EXPECT_THAT(ranks(Topology({.tensor = 4}), GroupKind::offload, 3), ElementsAre(3));
  EXPECT_THAT(ranks(Topology({.data = 4}), GroupKind::offload, 3), ElementsAre(0, 1, 2, 3));
}

TEST(Topology, ShardGroupsDivideTheSequenceGroupOrStandAlone) {
  const Topology over_sequence({.sequence = 4, .use_hsdp = true, .hsdp_shard = 2});
  EXPECT_EQ(over_sequence.world_size(), 4u);
  EXPECT_THAT(all_ranks(over_sequence, GroupKind::shard), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(all_ranks(Topology({.sequence = 4, .use_hsdp = true}), GroupKind::shard),
              ElementsAre(ElementsAre(0, 1, 2, 3)));

  const Topology alone({.use_hsdp = true, .hsdp_shard = 3});
  EXPECT_EQ(alone.world_size(), 3u);
  EXPECT_EQ(alone.replica_count(), 1u);
  EXPECT_THAT(ranks(alone, GroupKind::shard, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(ranks(alone, GroupKind::replica, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(ranks(alone, GroupKind::sequence, 1), ElementsAre(1));
  EXPECT_THAT(ranks(alone, GroupKind::data, 1), ElementsAre(1));
  EXPECT_THAT(ranks(alone, GroupKind::offload, 1), ElementsAre(1));
}

TEST(Topology, ReplicasGoTogetherOnlyWhereWeightsAreGathered) {
  const Topology topology({.data = 2, .tensor = 2});
  EXPECT_THAT(topology.lockstep_group(3, true).ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(topology.lockstep_group(3, false).ranks, ElementsAre(2, 3));
  EXPECT_EQ(topology.lockstep_group(3, false).position, 1u);
}

TEST(Topology, RefusesSizesNamingTheFlag) {
  using Code = ErrorCode;
  const auto refuses = [](const ParallelSizes& sizes, const std::vector<std::string>& parts) {
    expect_error(Code::invalid_argument, parts, [&] { Topology{sizes}; });
  };
  refuses({.data = 0}, {"--data-parallel-size 0", "expected 1 to 4096"});
  refuses({.sequence = 0}, {"--usp 0", "expected 1 to 4096"});
  refuses({.tensor = 5000}, {"--tensor-parallel-size 5000", "expected 1 to 4096"});
  refuses({.data = 64, .sequence = 64, .tensor = 2}, {"--data-parallel-size 64", "8192 ranks", "at most 4096"});
  refuses({.hsdp_shard = 2}, {"--hsdp-shard-size 2", "--use-hsdp"});
  refuses({.sequence = 4, .use_hsdp = true, .hsdp_shard = 3}, {"--hsdp-shard-size 3", "divisor of --usp 4"});
  refuses({.sequence = 2, .use_hsdp = true, .hsdp_shard = 4}, {"--hsdp-shard-size 4", "divisor of --usp 2"});
}

TEST(Topology, ComparesTheRanksThatWereStarted) {
  const Topology topology({.data = 2, .tensor = 2});
  topology.check_world_size(4, "mpirun");
  expect_error(ErrorCode::incompatible, {"mpirun started 3 ranks", "--data-parallel-size 2", "takes 4"},
               [&] { topology.check_world_size(3, "mpirun"); });
  expect_error(ErrorCode::incompatible, {"mpirun started 1 ranks", "--hsdp-shard-size 2 takes 2"},
               [&] { Topology({.use_hsdp = true, .hsdp_shard = 2}).check_world_size(1, "mpirun"); });
}

}  // namespace
}  // namespace lamina
