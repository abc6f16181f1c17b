#include <exception>
#include <utility>

#include "base/error.h"
#include "comm/launched_process.h"
#include "comm/mpi/lifeline.h"
#include "comm/mpi/process_communicator.h"
#include "comm/mpi/process_group.h"
#include "comm/mpi/process_world.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/rank_connector.h"
#include "comm/rank_failure.h"

namespace lamina {
namespace mpi {
namespace {

constexpr std::chrono::seconds kConnectionLimit{60};

/// Groups are told apart by their tags, which processes count alike: to make one, nobody has to wait for anybody.
class ProcessConnector final : public RankConnector {
 public:
  ProcessConnector(std::shared_ptr<ProcessWorld> world, const ProcessOptions& options)
      : options_(options), world_(std::move(world)), exceptions_(std::uncaught_exceptions()) {}

  /// Where an exception destroys it, nobody may have told the others that this process comes no more.
  ~ProcessConnector() override {
    if (std::uncaught_exceptions() > exceptions_) end(Error(ErrorCode::internal, "an exception ended its process"));
  }

  std::size_t world_size() const noexcept override { return world_->processes().count * options_.ranks_per_process; }
  LocalRanks local_ranks() const noexcept override {
    return {world_->processes().index * options_.ranks_per_process, options_.ranks_per_process};
  }

  void end(const Error& reason) noexcept override { world_->fate()->end(rank_failure(local_ranks().first, reason)); }

  std::vector<std::unique_ptr<Communicator>> connect_devices(const std::string& name,
                                                             std::span<const std::size_t> ranks) override {
    const GroupAddress address = next_group(name, ranks);
    if (address.own.count == 0) return {};
    if (options_.first_gpu) return connect_gpus(address, ranks);
    return create_ends(name, std::make_shared<ProcessGroup>(world_, address, options_.collective_limit));
  }

  std::vector<std::unique_ptr<HostExchange>> connect_hosts(const std::string& name,
                                                           std::span<const std::size_t> ranks) override {
    const GroupAddress address = next_group(name, ranks);
    if (address.own.count == 0) return {};
    return create_round_ends(std::make_shared<ProcessGroup>(world_, address, std::nullopt));
  }

 private:
  GroupAddress next_group(const std::string& name, std::span<const std::size_t> ranks) {
    check_group(name, ranks, world_size());
    world_->fate()->check();
    return locate(name, ++last_tag_, ranks, world_->processes());
  }

  std::vector<std::unique_ptr<Communicator>> connect_gpus(const GroupAddress& address,
                                                          std::span<const std::size_t> ranks);

  const ProcessOptions options_;
  const std::shared_ptr<ProcessWorld> world_;
  const int exceptions_;
  int last_tag_ = kLifelineTag;
};

/// The process of the group's first rank makes NCCL's id and gives it to the others.
std::vector<std::byte> agree_on_id(ProcessGroup& group) {
  const bool is_first = group.own().first == 0;
  const auto own = std::make_shared<const Bytes>(is_first ? create_nccl_id() : Bytes{});
  std::vector<Bytes> incoming = group.exchange({1, "NCCL id", 0}, {group.others().size(), own});
  return is_first ? *own : std::move(incoming.front());
}

std::vector<std::unique_ptr<Communicator>> ProcessConnector::connect_gpus(const GroupAddress& address,
                                                                          std::span<const std::size_t> ranks) {
  std::vector<int> devices;
  for (std::size_t i = 0; i < address.own.count; ++i)
    devices.push_back(*options_.first_gpu + static_cast<int>(ranks[address.own.first + i] - local_ranks().first));
  try {
    ProcessGroup group(world_, address, kConnectionLimit);
    return create_nccl_group(address.name, {.id = agree_on_id(group),
                                            .size = ranks.size(),
                                            .first_rank = address.own.first,
                                            .devices = devices,
                                            .fate = world_->fate()});
  } catch (const Error& error) {
    world_->fate()->end(error);
    world_->fate()->check();
    throw;
  }
}

}  // namespace
}  // namespace mpi

std::unique_ptr<RankConnector> connect_processes(const ProcessOptions& options) {
  expects(options.ranks_per_process > 0, "a process without ranks");
  const std::optional<LaunchedProcess> process = launched_process();
  if (!process)
    fail(ErrorCode::unavailable, "this process was started alone: start several with mpirun, or srun --mpi=pmix");
  return std::make_unique<mpi::ProcessConnector>(
      std::make_shared<mpi::ProcessWorld>(*process, options.ranks_per_process, options.silence_limit), options);
}

}  // namespace lamina
