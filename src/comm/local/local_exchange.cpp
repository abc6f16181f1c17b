#include <utility>

#include "comm/host_exchange.h"
#include "comm/local/rendezvous.h"

namespace lamina {
namespace {

struct Group {
  Group(const std::string& name, std::size_t ranks) : rendezvous(name, ranks, std::nullopt), offers(ranks) {}

  local::Rendezvous rendezvous;
  std::vector<std::vector<std::byte>> offers;  ///< by rank; each rank writes its own before a meeting
  std::vector<std::vector<std::byte>> agreed;  ///< those of the last meeting
};

class LocalExchange final : public HostExchange {
 public:
  LocalExchange(std::size_t rank, std::shared_ptr<Group> group) : rank_(rank), group_(std::move(group)) {}
  ~LocalExchange() override { group_->rendezvous.leave(rank_); }

  std::vector<std::vector<std::byte>> all_gather(std::vector<std::byte> mine) override {
    group_->offers[rank_] = std::move(mine);
    group_->rendezvous.meet(rank_, {++rounds_, "round", 0}, [this] { group_->agreed = group_->offers; });
    return group_->agreed;
  }

  void abort(const Error& reason) noexcept override { group_->rendezvous.abort(reason); }

 private:
  std::size_t rank_;
  std::shared_ptr<Group> group_;
  std::uint64_t rounds_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<HostExchange>> create_local_exchange(const std::string& name, std::size_t ranks) {
  const auto group = std::make_shared<Group>(name, ranks);
  std::vector<std::unique_ptr<HostExchange>> ends;
  for (std::size_t rank = 0; rank < ranks; ++rank) ends.push_back(std::make_unique<LocalExchange>(rank, group));
  return ends;
}

}  // namespace lamina
