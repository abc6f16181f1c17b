#pragma once

#include <cstddef>

#include "comm/topology.h"
#include "engine/lockstep/wave_policy.h"

namespace lamina {

/// What `--dlo-resident-layers` does where weights are gathered.
enum class ResidentsWithAllGather {
  keep,    ///< residents are gathered once and kept
  reject,  ///< the older contract: refused
};

/// How ranks share weights, tokens and samples, as the flags give it.
struct ParallelConfig {
  ParallelSizes sizes;
  std::size_t text_encoder_tp = 0;                    ///< --text-encoder-tp-size; 0: that of the transformer
  bool enable_cpu_offload = false;                    ///< whole components come and go
  bool enable_layerwise_offload = false;              ///< blocks stream on a single device
  bool enable_distributed_layerwise_offload = false;  ///< blocks stream on every rank
  bool dlo_use_allgather = true;                      ///< off with --dlo-no-use-allgather
  std::size_t dlo_resident_layers = 0;
  ResidentsWithAllGather dlo_resident_with_allgather = ResidentsWithAllGather::keep;
  WavePolicy dlo_wave_policy = WavePolicy::ragged;
  std::size_t max_concurrent_requests_per_replica = 1;  ///< samples that share a visit of a unit
};

}  // namespace lamina
