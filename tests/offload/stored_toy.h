#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/temporary_folder.h"
#include "comm/local_ranks.h"
#include "offload/block_stream.h"
#include "offload/gathered_source.h"
#include "offload/offload_plan.h"
#include "offload/toy_part.h"
#include "weights/checkpoint.h"
#include "weights/weight_binding.h"

namespace lamina::test {

/// The units of a toy part as a checkpoint, from which ranks take their shards.
class StoredToy {
 public:
  explicit StoredToy(const std::vector<ToyPart::Sizes>& stacks);

  const OffloadPlan& plan() const { return plan_; }
  const std::vector<ToyPart::Sizes>& stacks() const { return stacks_; }
  std::vector<WeightBinding> bindings() const;

 private:
  testing::TemporaryFolder folder_;
  std::vector<ToyPart::Sizes> stacks_;
  OffloadPlan plan_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

/// One rank's half of a toy part that is gathered.
struct GatheredToy {
  GatheredToy(LocalRank& mine, const StoredToy& toy, std::size_t chunks, std::size_t ring_bytes,
              const std::vector<std::vector<bool>>& resident = {}, bool record_timeline = false,
              ShardPlace shards = ShardPlace::host);

  /// Enters the unit, runs its compute, leaves.
  void visit(UnitRef unit);

  Sharding sharding;
  std::unique_ptr<Stream> compute;
  std::unique_ptr<Stream> copy;
  ToyPart part;
  GatheredSource source;
  BlockStream stream;
};

/// Bytes of a unit on the device.
inline std::size_t padded(std::size_t size_bytes, std::size_t ranks, std::size_t chunks) {
  const std::size_t pieces = ranks * chunks;
  return (size_bytes + 256 * pieces - 1) / (256 * pieces) * (256 * pieces);
}

}  // namespace lamina::test
