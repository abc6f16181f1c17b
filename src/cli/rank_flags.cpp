#include "cli/rank_flags.h"

#include "cli/whole_number.h"
#include "comm/launched_process.h"

namespace lamina {

void RankFlags::add_to(CLI::App& command) {
  add_sizes_to(command);
  add_concurrency_to(command);
  command.add_flag("--enable-cpu-offload", parallel.enable_cpu_offload,
                   "Keep the components in host memory and bring each whole for its stage");
  command.add_flag(
      "--enable-layerwise-offload", parallel.enable_layerwise_offload,
      "Stream the blocks of a single device, as --enable-distributed-layerwise-offload does on every rank");
  command
      .add_option("--ranks-per-process", parallel.ranks_per_process,
                  "Under mpirun or srun: ranks of each process; default: all ranks divided by the processes")
      ->check(check_natural_number);
  add_streaming_to(command, command.get_option("--enable-distributed-layerwise-offload"));
}

void RankFlags::add_to_benchmark(CLI::App& command) {
  add_sizes_to(command);
  add_concurrency_to(command);
  add_streaming_to(command, nullptr);
}

void RankFlags::add_concurrency_to(CLI::App& command) {
  command
      .add_option("--max-concurrent-requests-per-replica", parallel.max_concurrent_requests_per_replica,
                  "Requests of a replica that share each visit of a block")
      ->check(check_natural_number)
      ->capture_default_str();
}

bool RankFlags::are_several() const {
  return parallel.sizes != ParallelSizes{} || parallel.ranks_per_process.has_value() || launched_process().has_value();
}

void RankFlags::add_sizes_to(CLI::App& command) {
  command.add_option("--data-parallel-size", parallel.sizes.data, "Replicas, each with requests of its own")
      ->check(check_natural_number)
      ->capture_default_str();
  command.add_option("--usp", parallel.sizes.sequence, "Ranks that divide the tokens of a sample (Ulysses)")
      ->check(check_natural_number)
      ->capture_default_str();
  command.add_option("--tensor-parallel-size", parallel.sizes.tensor, "Ranks that divide every linear layer")
      ->check(check_natural_number)
      ->capture_default_str();
  command
      .add_option("--text-encoder-tp-size", parallel.text_encoder_tp,
                  "1: each tensor parallel rank has the text encoder whole; default: it is divided too")
      ->check(check_natural_number);
  CLI::Option* hsdp = command.add_flag("--use-hsdp", parallel.sizes.use_hsdp,
                                       "Divide one copy of the weights over a shard group, and gather each block");
  command
      .add_option("--hsdp-shard-size", parallel.sizes.hsdp_shard,
                  "Ranks of a shard group; default: those of --usp, of which it is a divisor")
      ->check(check_natural_number)
      ->needs(hsdp);
}

void RankFlags::add_streaming_to(CLI::App& command, CLI::Option* dlo) {
  CLI::Option* gather =
      command
          .add_flag("--dlo-use-allgather,!--dlo-no-use-allgather", parallel.dlo_use_allgather,
                    "Ranks hold one copy of the streamed weights together and gather each block (default), or each "
                    "copies whole blocks")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command
      .add_option("--dlo-gather-chunks", parallel.dlo_gather_chunks,
                  "Gather a block in so many chunks: one while the next is copied")
      ->check(check_natural_number)
      ->capture_default_str();
  CLI::Option* waves =
      command
          .add_option("--dlo-wave-policy", wave_policy,
                      "ragged: requests join and leave at every pass; strict: they start together, with equal steps")
          ->check(CLI::IsMember({"ragged", "strict"}))
          ->capture_default_str();
  CLI::Option* residents =
      command
          .add_option("--dlo-resident-with-allgather", residents_with_gather,
                      "keep: resident blocks are gathered once; reject: refuse them where weights are gathered")
          ->check(CLI::IsMember({"keep", "reject"}))
          ->capture_default_str();
  if (dlo == nullptr) return;
  for (CLI::Option* option : {gather, waves, residents}) option->needs(dlo);
}

ParallelConfig RankFlags::parsed() const {
  ParallelConfig config = parallel;
  config.dlo_wave_policy = wave_policy == "strict" ? WavePolicy::strict : WavePolicy::ragged;
  config.dlo_resident_with_allgather =
      residents_with_gather == "reject" ? ResidentsWithAllGather::reject : ResidentsWithAllGather::keep;
  return config;
}

}  // namespace lamina
