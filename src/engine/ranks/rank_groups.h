#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/host_exchange.h"
#include "comm/rank_connector.h"
#include "comm/topology.h"
#include "engine/lockstep/first_fault.h"
#include "models/model_groups.h"

namespace lamina {

/// A rank's ends of the groups it is in; null where it is alone in one.
struct RankEnds {
  std::unique_ptr<HostExchange> rounds;    ///< with its lockstep group
  std::unique_ptr<Communicator> weights;   ///< with those that hold one copy of the weights together
  std::unique_ptr<Communicator> tensor;    ///< with those that divide a sample's layers
  std::unique_ptr<Communicator> sequence;  ///< with those that divide its tokens

  ModelGroups model_groups() const noexcept { return {tensor.get(), sequence.get()}; }
  void abort(const Error& reason) noexcept;
};

/// Ranks that go from pass to pass together and share a fate, as one process sees them. Its threads share it.
struct LockstepGroup {
  std::size_t index = 0;           ///< among all of the topology
  std::vector<std::size_t> ranks;  ///< of the world, in order
  LocalRanks local;                ///< those of them that are threads of this process; may be none
  std::vector<RankEnds> ends;      ///< of the local ones, in order
  FirstFault fault;

  /// Ends every group that a local rank is in.
  void abort(const Error& reason) noexcept;
};

/// Forms all groups of the topology, in one order everywhere, and gives the lockstep groups in that of their ranks.
/// Weights are held together by the groups of kind `weights`, unset: by each rank alone.
std::vector<std::unique_ptr<LockstepGroup>> form_groups(RankConnector& connector, const Topology& topology,
                                                        std::optional<GroupKind> weights);

}  // namespace lamina
