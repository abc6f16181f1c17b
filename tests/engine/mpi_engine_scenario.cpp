// Ranks of a process that fails in the middle of a run, for mpi_engine_failure_test.cpp: `NAME RANKS_PER_PROCESS`,
// under mpirun. Says for which reason each rank ended.

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "engine/lockstep/first_fault.h"
#include "engine/ranked_fixture.h"
#include "engine/ranks/gathered_run.h"

namespace lamina::test {
namespace {

/// Copy number 60 of rank 1 is refused.
CpuDeviceOptions faulty_device(std::size_t rank) {
  CpuDeviceOptions options;
  if (rank == 1) options.faults.fail_copy = 60;
  return options;
}

int run(const std::string& name, std::size_t ranks_per_process) {
  const std::shared_ptr<RankConnector> world =
      connect_processes({.ranks_per_process = ranks_per_process,
                         .silence_limit = std::chrono::milliseconds(name == "kill" ? 1000 : 10'000)});
  const bool kills = name == "kill" && world->local_ranks().contains(1);
  RankedSetup setup = tiny_ranks(world->world_size(), {.stream = true, .ring_slots = 2}, name == "local" ? 0 : 2,
                                 name == "copy" || name == "local" ? faulty_device : nullptr);
  setup.connector = world;
  std::size_t passes = 0;
  const RankedRun run = run_on_ranks(setup, ragged_requests(), {.passed = [&](const RankedProgress&) {
                                       if (kills && ++passes == 3) ::raise(SIGKILL);
                                     }});
  for (std::size_t i = 0; i < run.ranks.size(); ++i)
    if (const std::optional<Fault>& fault = run.ranks[i].fault)
      fmt::print("rank {} ended: {}: {}\n", run.local.first + i, to_string(fault->failure.code), to_string(*fault));
  std::fflush(stdout);
  gather_run(*world, run);
  return 0;
}

}  // namespace
}  // namespace lamina::test

int main(int, char** argv) {
  lamina::setup_logging(spdlog::level::info);
  try {
    return lamina::test::run(argv[1], std::strtoul(argv[2], nullptr, 10));
  } catch (const lamina::Error& error) {
    std::fputs(fmt::format("lamina: {}: {}\n", to_string(error.code()), error.message()).c_str(), stderr);
    return 1;
  }
}
