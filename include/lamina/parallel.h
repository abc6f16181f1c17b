#pragma once

#include <cstddef>
#include <optional>

namespace lamina {

/// How many ranks each kind of parallelism takes.
struct ParallelSizes {
  std::size_t data = 1;      ///< --data-parallel-size: replicas, each with samples of its own
  std::size_t sequence = 1;  ///< --usp: ranks that divide the tokens of a sample (Ulysses)
  std::size_t tensor = 1;    ///< --tensor-parallel-size: ranks that divide every linear layer
  bool use_hsdp = false;     ///< --use-hsdp: the parameters are divided over a shard group and gathered per unit
  /// --hsdp-shard-size; 0: the sequence parallel group. Without sequence parallelism it is the number of ranks, which
  /// all compute the same sample and only divide its weights.
  std::size_t hsdp_shard = 0;

  bool operator==(const ParallelSizes&) const = default;
};

/// What `--dlo-resident-layers` does where weights are gathered.
enum class ResidentsWithAllGather {
  keep,    ///< residents are gathered once and kept
  reject,  ///< the older contract: refused
};

/// Which requests may share the passes of a group whose ranks gather weights together.
enum class WavePolicy {
  ragged,  ///< any: requests join and leave at every pass
  strict,  ///< those that start together, with the same number of steps, given explicitly
};

/// How ranks share weights, tokens and samples. docs/compatibility.md says what goes together.
struct ParallelConfig {
  ParallelSizes sizes;
  std::size_t text_encoder_tp = 0;        ///< --text-encoder-tp-size; 0: that of the transformer
  bool enable_cpu_offload = false;        ///< whole components come and go
  bool enable_layerwise_offload = false;  ///< blocks stream on a single device
  bool dlo_use_allgather = true;          ///< off with --dlo-no-use-allgather
  std::size_t dlo_gather_chunks = 1;      ///< gathers of a unit; one runs while the next chunk is copied
  ResidentsWithAllGather dlo_resident_with_allgather = ResidentsWithAllGather::keep;
  WavePolicy dlo_wave_policy = WavePolicy::ragged;
  std::size_t max_concurrent_requests_per_replica = 1;  ///< samples that share a visit of a unit
  /// Ranks that are threads of this process, where a launcher started several processes; unset: as many as it takes.
  std::optional<std::size_t> ranks_per_process;
};

}  // namespace lamina
