#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host_exchange.h"

namespace lamina {

/// World ranks that are threads of one process, one behind the other.
struct LocalRanks {
  std::size_t first = 0;
  std::size_t count = 1;

  bool contains(std::size_t rank) const noexcept { return rank >= first && rank - first < count; }
  bool operator==(const LocalRanks&) const = default;
};

/// How the ranks of an engine reach each other, whether they are threads of one process or of several. Every process
/// has one and forms the same groups in the same order, those without a rank of its own too.
class RankConnector {
 public:
  virtual ~RankConnector() = default;

  virtual std::size_t world_size() const noexcept = 0;
  virtual LocalRanks local_ranks() const noexcept = 0;

  /// The first rank of each process, of which all have as many.
  std::vector<std::size_t> first_ranks() const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < world_size(); rank += local_ranks().count) ranks.push_back(rank);
    return ranks;
  }

  /// Ends what this process's ranks share with others, unless it has ended: `reason` is what those report.
  virtual void end(const Error& reason) noexcept = 0;

  /// Forms a group of the devices of `ranks`, world ranks in ascending order. Gives the ends of those that are local,
  /// in order, each to be handed to its rank's thread. Throws unavailable or device where they cannot be connected.
  virtual std::vector<std::unique_ptr<Communicator>> connect_devices(const std::string& name,
                                                                     std::span<const std::size_t> ranks) = 0;
  /// The same for a group that exchanges bytes of the host.
  virtual std::vector<std::unique_ptr<HostExchange>> connect_hosts(const std::string& name,
                                                                   std::span<const std::size_t> ranks) = 0;
};

/// Ranks that are all threads of this process, with CPU devices. A rank waits for its peers in a collective for no
/// longer than `collective_limit`.
std::unique_ptr<RankConnector> connect_threads(std::size_t ranks,
                                               std::optional<std::chrono::milliseconds> collective_limit);

/// Ranks that are all threads of this process, with one GPU each: rank r that of index `first_device` + r.
std::unique_ptr<RankConnector> connect_gpus(std::size_t ranks, int first_device);

struct ProcessOptions {
  std::size_t ranks_per_process = 1;  ///< threads; the same in all processes
  std::optional<int> first_gpu;       ///< of this process: its ranks have neighbouring ones. None: CPU devices
  std::optional<std::chrono::milliseconds> collective_limit;  ///< as for threads
  /// A process from which nothing is heard for so long is gone. Each says every tenth of it that it lives (every second
  /// at least), on a thread that does nothing else but pass on messages, however busy the others are.
  std::chrono::milliseconds silence_limit = std::chrono::seconds(10);
};

/// Ranks that are threads of the processes that mpirun or srun started together, this one among them: process p has the
/// ranks [p * ranks_per_process, (p + 1) * ranks_per_process). Once in a process. All groups end together, on all
/// processes and with the first reason, when one ends or a process is gone. The connector and all ends of its groups
/// are destroyed when the last collective is over; this waits for the other processes to come as far, unless the groups
/// have ended.
///
/// Throws unavailable where this build has no MPI, where no launcher started this process, and where the others do not
/// come.
std::unique_ptr<RankConnector> connect_processes(const ProcessOptions& options);

/// Throws internal unless `ranks` are ranks of a world of so many in ascending order, as those of group `name` must be.
void check_group(const std::string& name, std::span<const std::size_t> ranks, std::size_t world_size);

}  // namespace lamina
