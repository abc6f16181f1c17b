#include "comm/local/local_communicator.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/local/ordered_sum.h"
#include "comm/local/rendezvous.h"
#include "device/cpu/cpu_stream.h"

namespace lamina {
namespace local {
namespace {

using std::chrono::nanoseconds;

/// What a rank brings to a meeting.
struct Offer {
  Collective collective;
  nanoseconds virtual_time{0};
};

struct Group {
  Group(const std::string& name, std::size_t ranks, std::optional<std::chrono::milliseconds> time_limit)
      : rendezvous(name, ranks, time_limit), offers(ranks) {}

  Rendezvous rendezvous;
  std::vector<Offer> offers;  ///< by rank; each rank writes its own before a meeting and has it to itself behind one
  nanoseconds over{0};        ///< virtual time at which the last meeting was
};

void all_gather(std::span<const Offer> offers) {
  const std::size_t size = offers.front().collective.piece_bytes;
  for (std::size_t to = 0; to < offers.size(); ++to)
    for (std::size_t from = 0; from < offers.size(); ++from)
      if (to != from)
        std::memcpy(offers[to].collective.target + from * size, offers[from].collective.target + from * size, size);
}

void all_to_all(std::span<const Offer> offers) {
  const std::size_t size = offers.front().collective.piece_bytes;
  for (std::size_t to = 0; to < offers.size(); ++to)
    for (std::size_t from = 0; from < offers.size(); ++from)
      std::memcpy(offers[to].collective.target + from * size, offers[from].collective.source + to * size, size);
}

void broadcast(std::span<const Offer> offers) {
  const Collective& root = offers[offers.front().collective.root].collective;
  for (const Offer& offer : offers)
    if (offer.collective.target != root.target) std::memcpy(offer.collective.target, root.target, root.piece_bytes);
}

void all_reduce(std::span<const Offer> offers) {
  std::vector<std::byte*> targets;
  for (const Offer& offer : offers) targets.push_back(offer.collective.target);
  const Collective& first = offers.front().collective;
  sum_in_order(first.dtype, first.piece_bytes, {targets.begin(), targets.end()}, targets);
}

void perform(std::span<const Offer> offers) {
  switch (offers.front().collective.kind) {
    case Collective::Kind::all_gather: return all_gather(offers);
    case Collective::Kind::all_to_all: return all_to_all(offers);
    case Collective::Kind::all_reduce: return all_reduce(offers);
    case Collective::Kind::broadcast: return broadcast(offers);
    case Collective::Kind::barrier: return;
  }
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(const std::string& name, std::size_t rank, std::size_t size, std::shared_ptr<Group> group)
      : Communicator(name, rank, size), group_(std::move(group)) {}
  ~LocalCommunicator() override { group_->rendezvous.leave(rank()); }

  void abort(const Error& reason) noexcept override { group_->rendezvous.abort(reason); }
  void check() const override { group_->rendezvous.check(); }

 private:
  void do_enqueue(const Collective& collective, const Access& access, Stream& stream) override {
    const Rendezvous::Topic topic{++entered_, describe(collective), collective.piece_bytes};
    cpu::launch_meeting(stream, access, size() * collective.piece_bytes,
                        [group = group_, rank = rank(), topic, collective](nanoseconds virtual_time) {
                          group->offers[rank] = {collective, virtual_time};
                          group->rendezvous.meet(rank, topic, [&] {
                            perform(group->offers);
                            group->over = std::ranges::max(group->offers, {}, &Offer::virtual_time).virtual_time;
                          });
                          return group->over;
                        });
  }

  std::shared_ptr<Group> group_;
  std::uint64_t entered_ = 0;
};

}  // namespace
}  // namespace local

std::vector<std::unique_ptr<Communicator>> create_local_group(const std::string& name, std::size_t ranks,
                                                              std::optional<std::chrono::milliseconds> time_limit) {
  const auto group = std::make_shared<local::Group>(name, ranks, time_limit);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    communicators.push_back(std::make_unique<local::LocalCommunicator>(name, rank, ranks, group));
  return communicators;
}

}  // namespace lamina
