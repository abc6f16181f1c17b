// A process of a world that fails, for mpi_failure_test.cpp: `lamina_mpi_scenario NAME RANKS_PER_PROCESS`, under
// mpirun. Says for which reason each of its ranks ended, and exits as the command lamina does.

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "comm/launched_process.h"
#include "comm/process_ranks.h"
#include "comm/rank_failure.h"

namespace lamina::test {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBytes = 64;  // of a piece

void gather(LocalRank& mine, std::size_t piece_bytes = kBytes) {
  const DeviceBuffer buffer = mine.device->allocate(mine.communicator->size() * piece_bytes, "test");
  mine.communicator->all_gather_async(buffer.data(), piece_bytes, *mine.stream);
  mine.stream->synchronize();
}

/// Gathers for ever, but a rank does something else after a while.
void gather_until(LocalRank& mine, std::size_t who, const std::function<void()>& instead) {
  for (int round = 0;; ++round) {
    if (mine.rank == who && round == 20) return instead();
    gather(mine, 3 << 20);
  }
}

using Scenario = std::function<void(LocalRank& mine, HostExchange& rounds)>;

const std::map<std::string, Scenario>& scenarios() {
  static const std::map<std::string, Scenario> all{
      {"nothing", [](LocalRank& mine, HostExchange&) { gather(mine); }},
      {"long",
       [](LocalRank& mine, HostExchange& rounds) {
         for (int round = 0; round < 60; ++round) {
           gather(mine);
           rounds.all_gather({});
           std::this_thread::sleep_for(milliseconds(50));
         }
       }},
      {"kind",
       [](LocalRank& mine, HostExchange&) {
         gather(mine);
         if (mine.rank + 1 < mine.communicator->size()) return gather(mine);
         const DeviceBuffer buffer = mine.device->allocate(kBytes, "test");
         mine.communicator->broadcast_async(buffer.data(), kBytes, 1, *mine.stream);
         mine.stream->synchronize();
       }},
      {"size",
       [](LocalRank& mine, HostExchange&) { gather(mine, mine.rank + 1 < mine.communicator->size() ? 64 : 128); }},
      {"abort in a round",
       [](LocalRank& mine, HostExchange& rounds) {
         if (mine.rank == 1) fail(ErrorCode::corrupt, "planted: a bad file");
         for (;;) rounds.all_gather({});
       }},
      {"abort in a collective",
       [](LocalRank& mine, HostExchange&) {
         gather_until(mine, 1, [] { fail(ErrorCode::out_of_device_memory, "planted: no memory"); });
       }},
      {"leave",
       [](LocalRank& mine, HostExchange&) {
         gather(mine);
         if (mine.rank == 1) return mine.communicator.reset();
         gather(mine);
       }},
      {"hang",
       [](LocalRank& mine, HostExchange& rounds) {
         gather(mine);
         if (mine.rank == 1) rounds.all_gather({});
         gather(mine);
       }},
      {"kill in a collective", [](LocalRank& mine, HostExchange&) { gather_until(mine, 1, [] { ::raise(SIGKILL); }); }},
      {"kill in a round",
       [](LocalRank& mine, HostExchange& rounds) {
         if (mine.rank == 1) ::raise(SIGKILL);
         rounds.all_gather({});
       }},
      {"exception", [](LocalRank&, HostExchange& rounds) { rounds.all_gather({}); }},
      {"unequal", [](LocalRank&, HostExchange& rounds) { rounds.all_gather({}); }},
  };
  return all;
}

/// What a rank's thread does in the engine, too: its failure ends its groups.
void run_rank(const Scenario& scenario, LocalRank& mine, HostExchange& rounds) {
  try {
    scenario(mine, rounds);
    mine.stream->synchronize();
  } catch (const Error& error) {
    const Error reason = failed_rank(error) ? error : rank_failure(mine.rank, error);
    mine.communicator->abort(reason);
    rounds.abort(reason);
    throw reason;
  }
}

int run(const std::string& name, std::size_t ranks_per_process) {
  if (name == "unequal" && launched_process()->index == 1) ranks_per_process = 2;
  const std::unique_ptr<RankConnector> world =
      connect_processes({.ranks_per_process = ranks_per_process,
                         .collective_limit = name == "hang" ? std::optional(milliseconds(400)) : std::nullopt,
                         .silence_limit = milliseconds(name.starts_with("kill") ? 1000 : 10'000)});
  std::vector<std::size_t> ranks(world->world_size());
  std::iota(ranks.begin(), ranks.end(), 0U);
  if (name == "exception" && world->local_ranks().contains(1)) fail(ErrorCode::not_found, "planted: no such model");
  std::vector<std::unique_ptr<HostExchange>> rounds = world->connect_hosts("rounds", ranks);
  const std::vector<std::optional<Error>> errors = run_group(*world, ranks, [&](LocalRank& mine) {
    run_rank(scenarios().at(name), mine, *rounds[mine.rank - world->local_ranks().first]);
  });
  std::optional<Error> first;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    fmt::print("rank {} ended: {}: {}\n", world->local_ranks().first + i, to_string(errors[i]->code()),
               errors[i]->message());
    first = first ? first : errors[i];
  }
  if (first) throw Error(*first);
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
    return error.code() == lamina::ErrorCode::device || error.code() == lamina::ErrorCode::internal ? 1 : 2;
  }
}
