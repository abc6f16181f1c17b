#include "cli/rank_flags.h"

#include "cli/whole_number.h"

namespace lamina {

void RankFlags::add_to(CLI::App& command) {
  CLI::Option* dlo = command.get_option("--enable-distributed-layerwise-offload");
  command.add_option("--data-parallel-size", parallel.sizes.data, "Replicas, each a device with requests of its own")
      ->check(check_whole_number)
      ->capture_default_str();
  command
      .add_option("--max-concurrent-requests-per-replica", parallel.max_concurrent_requests_per_replica,
                  "Requests of a replica that share each visit of a block")
      ->check(check_whole_number)
      ->capture_default_str();
  CLI::Option* gather =
      command
          .add_flag("--dlo-use-allgather,!--dlo-no-use-allgather", parallel.dlo_use_allgather,
                    "Replicas hold one copy of the streamed weights together and gather each block (default), or each "
                    "copies whole blocks")
          ->needs(dlo);
  command
      .add_option("--dlo-gather-chunks", gather_chunks,
                  "Gather a block in so many chunks: one while the next is copied")
      ->check(check_whole_number)
      ->capture_default_str()
      ->needs(dlo);
  command
      .add_option("--dlo-wave-policy", wave_policy,
                  "ragged: requests join and leave at every pass; strict: they start together, with equal steps")
      ->check(CLI::IsMember({"ragged", "strict"}))
      ->capture_default_str()
      ->needs(dlo);
  gather->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

RankedConfig RankFlags::parsed(const EngineConfig& engine) const {
  RankedConfig config{engine, parallel, gather_chunks};
  config.parallel.dlo_wave_policy = wave_policy == "strict" ? WavePolicy::strict : WavePolicy::ragged;
  return config;
}

}  // namespace lamina
