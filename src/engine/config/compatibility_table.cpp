// The compatibility matrix: the one place that says which kinds of parallelism and offload go together. Validation and
// docs/compatibility.md are made from it.

#include "engine/config/compatibility.h"

namespace lamina {

const std::array<FeatureInfo, kFeatureCount>& features() {
  using Config = const EngineConfig&;
  static const std::array<FeatureInfo, kFeatureCount> kFeatures{{
      {Feature::data_parallel,
       "--data-parallel-size",
       "replicas with samples of their own",
       {},
       [](Config config) { return config.parallel.sizes.data > 1; }},
      {Feature::sequence_parallel,
       "--usp",
       "ranks that divide the tokens of a sample",
       {},
       [](Config config) { return config.parallel.sizes.sequence > 1; }},
      {Feature::tensor_parallel,
       "--tensor-parallel-size",
       "ranks that divide every linear layer",
       {},
       [](Config config) { return config.parallel.sizes.tensor > 1; }},
      {Feature::hsdp,
       "--use-hsdp",
       "parameters divided over a shard group, gathered per unit",
       {},
       [](Config config) { return config.parallel.sizes.use_hsdp; }},
      {Feature::cpu_offload,
       "--enable-cpu-offload",
       "whole components moved between stages",
       {},
       [](Config config) { return config.parallel.enable_cpu_offload; }},
      {Feature::layerwise_offload,
       "--enable-layerwise-offload",
       "blocks streamed on a single device",
       {},
       [](Config config) { return config.parallel.enable_layerwise_offload; }},
      {Feature::dlo,
       "--enable-distributed-layerwise-offload",
       "blocks streamed on every rank",
       {},
       [](Config config) { return config.enable_distributed_layerwise_offload; }},
      {Feature::all_gather, "--dlo-use-allgather",
       "each rank copies its share of a unit, then they gather it (default)", Feature::dlo,
       [](Config config) { return config.enable_distributed_layerwise_offload && config.parallel.dlo_use_allgather; }},
      {Feature::residents, "--dlo-resident-layers", "blocks kept on the device", Feature::dlo,
       [](Config config) { return config.dlo_resident_layers > 0; }},
      {Feature::residents_rejected, "--dlo-resident-with-allgather reject",
       "the older contract: residents only without all-gather", Feature::residents,
       [](Config config) { return config.parallel.dlo_resident_with_allgather == ResidentsWithAllGather::reject; }},
      {Feature::strict_waves, "--dlo-wave-policy strict",
       "the older contract: requests start together, with equal steps", Feature::all_gather,
       [](Config config) { return config.parallel.dlo_wave_policy == WavePolicy::strict; }},
      {Feature::co_batching,
       "--max-concurrent-requests-per-replica",
       "samples that share a visit of a unit",
       {},
       [](Config config) { return config.parallel.max_concurrent_requests_per_replica > 1; }},
  }};
  return kFeatures;
}

const std::vector<Cell>& compatibility_cells() {
  static constexpr std::string_view kUseDlo = "stream with --enable-distributed-layerwise-offload instead";
  static constexpr std::string_view kStageShards =
      "stage the shards from the host with --enable-distributed-layerwise-offload --dlo-no-use-allgather instead";
  using enum Feature;
  using enum Verdict;
  static const std::vector<Cell> kCells{
      {data_parallel, hsdp, refused, "HSDP divides one copy of the weights among ranks that share a sample",
       "divide the streamed weights among replicas with --enable-distributed-layerwise-offload, without --use-hsdp"},
      {tensor_parallel, hsdp, refused, "tensor parallel ranks hold different parameters already",
       "divide the sample with --usp under HSDP, or drop --use-hsdp"},
      {hsdp, all_gather, refused, "the same weights would be divided twice",
       "add --dlo-no-use-allgather: the shards of HSDP are staged from the host then"},
      {hsdp, cpu_offload, refused, "HSDP keeps its shards on the devices", kStageShards},
      {hsdp, layerwise_offload, refused, "HSDP keeps its shards on the devices", kStageShards},
      {data_parallel, layerwise_offload, refused, "layerwise offload streams on a single device", kUseDlo},
      {sequence_parallel, layerwise_offload, refused, "layerwise offload streams on a single device", kUseDlo},
      {tensor_parallel, layerwise_offload, refused, "layerwise offload streams on a single device", kUseDlo},
      {dlo, cpu_offload, overridden, "blocks stream, and what lies outside them comes and goes with its stage", {}},
      {dlo, layerwise_offload, overridden, "it streams the blocks of every rank, of a single one too", {}},
      {layerwise_offload,
       cpu_offload,
       overridden,
       "blocks stream, and what lies outside them comes and goes with its stage",
       {}},
      {all_gather, residents_rejected, refused, "the older contract has no residents where weights are gathered",
       "drop --dlo-resident-with-allgather reject, or --dlo-resident-layers, or add --dlo-no-use-allgather"},
      {data_parallel,
       all_gather,
       combine,
       "weights are gathered over the replicas; they go from pass to pass together",
       {}},
      {sequence_parallel,
       all_gather,
       combine,
       "weights are gathered over the sequence parallel ranks, unless there are replicas to do it",
       {}},
      {tensor_parallel,
       all_gather,
       combine,
       "tensor parallel ranks hold different weights: alone they gather nothing, each copies whole units",
       {}},
      {hsdp, dlo, combine, "with --dlo-no-use-allgather the shards lie on the host and are staged per unit", {}},
      {sequence_parallel, hsdp, combine, "a shard group is the sequence group, or divides it", {}},
  };
  return kCells;
}

}  // namespace lamina
