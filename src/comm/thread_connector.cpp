#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "comm/local/local_communicator.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/rank_connector.h"

namespace lamina {
namespace {

using ConnectDevices = std::function<std::vector<std::unique_ptr<Communicator>>(const std::string& name,
                                                                                std::span<const std::size_t> ranks)>;

class ThreadConnector final : public RankConnector {
 public:
  ThreadConnector(std::size_t ranks, ConnectDevices connect) : ranks_(ranks), connect_(std::move(connect)) {}

  std::size_t world_size() const noexcept override { return ranks_; }
  LocalRanks local_ranks() const noexcept override { return {0, ranks_}; }
  void end(const Error&) noexcept override {}  // there are no others

  std::vector<std::unique_ptr<Communicator>> connect_devices(const std::string& name,
                                                             std::span<const std::size_t> ranks) override {
    check_group(name, ranks, ranks_);
    return connect_(name, ranks);
  }
  std::vector<std::unique_ptr<HostExchange>> connect_hosts(const std::string& name,
                                                           std::span<const std::size_t> ranks) override {
    check_group(name, ranks, ranks_);
    return create_local_exchange(name, ranks.size());
  }

 private:
  std::size_t ranks_;
  ConnectDevices connect_;
};

}  // namespace

void check_group(const std::string& name, std::span<const std::size_t> ranks, std::size_t world_size) {
  expects(!ranks.empty() && std::ranges::is_sorted(ranks, std::less_equal()) && ranks.back() < world_size,
          "group '{}' is not made of ranks of a world of {} in ascending order", name, world_size);
}

std::unique_ptr<RankConnector> connect_threads(std::size_t ranks,
                                               std::optional<std::chrono::milliseconds> collective_limit) {
  return std::make_unique<ThreadConnector>(
      ranks, [collective_limit](const std::string& name, std::span<const std::size_t> group) {
        return create_local_group(name, group.size(), collective_limit);
      });
}

std::unique_ptr<RankConnector> connect_gpus(std::size_t ranks, int first_device) {
  return std::make_unique<ThreadConnector>(ranks,
                                           [first_device](const std::string& name, std::span<const std::size_t> group) {
                                             std::vector<int> devices;
                                             for (const std::size_t rank : group)
                                               devices.push_back(first_device + static_cast<int>(rank));
                                             return create_nccl_group(name, devices);
                                           });
}

}  // namespace lamina
