#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "comm/local_ranks.h"
#include "comm/rank_connector.h"

namespace lamina::test {

/// The world of this process, the same for all tests of a program.
RankConnector& world();
const std::shared_ptr<RankConnector>& shared_world();

inline std::vector<std::size_t> all_ranks() {
  std::vector<std::size_t> ranks(world().world_size());
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

/// Runs `body` on a thread for each rank that a group has in this process, and gives back the error that ended each.
/// `LocalRank::rank` is the place in the group.
template <typename Body>
std::vector<std::optional<Error>> run_group(RankConnector& connector, const std::vector<std::size_t>& ranks, Body body,
                                            const std::function<CpuDeviceOptions(std::size_t rank)>& options = {}) {
  std::vector<std::unique_ptr<Communicator>> ends = connector.connect_devices("test", ranks);
  std::vector<std::optional<Error>> errors(ends.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ends.size(); ++i)
    threads.emplace_back([&, i] {
      const std::size_t rank = ends[i]->rank();
      LocalRank mine{rank, std::move(ends[i]), create_cpu_device(options ? options(rank) : CpuDeviceOptions{}), {}};
      mine.stream = mine.device->create_stream("comm");
      try {
        body(mine);
        mine.stream->synchronize();
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// The same for all ranks of the world.
template <typename Body>
std::vector<std::optional<Error>> run_world(Body body,
                                            const std::function<CpuDeviceOptions(std::size_t rank)>& options = {}) {
  return run_group(world(), all_ranks(), body, options);
}

}  // namespace lamina::test
