#include <cstring>
#include <utility>

#include "base/error.h"
#include "comm/mpi/process_communicator.h"

namespace lamina::mpi {
namespace {

/// The offers of a process's ranks as one message: their sizes, then their bytes.
Bytes pack(const std::vector<Bytes>& offers) {
  Bytes bytes(offers.size() * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const std::uint64_t size = offers[i].size();
    std::memcpy(bytes.data() + i * sizeof(size), &size, sizeof(size));
  }
  for (const Bytes& offer : offers) bytes.insert(bytes.end(), offer.begin(), offer.end());
  return bytes;
}

/// The reverse, into places `part` of `agreed`.
void unpack(const Bytes& bytes, const GroupPart& part, std::vector<Bytes>& agreed) {
  std::size_t offset = part.count * sizeof(std::uint64_t);
  for (std::size_t i = 0; i < part.count; ++i) {
    std::uint64_t size = 0;
    expects(offset <= bytes.size(), "a round's message of {} bytes is too short", bytes.size());
    std::memcpy(&size, bytes.data() + i * sizeof(size), sizeof(size));
    expects(size <= bytes.size() - offset, "a round's message of {} bytes is too short", bytes.size());
    const auto* begin = bytes.data() + offset;
    agreed[part.first + i].assign(begin, begin + size);
    offset += size;
  }
}

struct Rounds {
  explicit Rounds(std::shared_ptr<ProcessGroup> of) : group(std::move(of)), offers(group->own().count) {}

  void hold(const MeetingTopic& topic) {
    const auto message = std::make_shared<const Bytes>(pack(offers));
    const std::vector<Bytes> incoming = group->exchange(topic, {group->others().size(), message});
    agreed.assign(group->size(), {});
    unpack(*message, group->own(), agreed);
    for (std::size_t part = 0; part < incoming.size(); ++part) unpack(incoming[part], group->others()[part], agreed);
  }

  const std::shared_ptr<ProcessGroup> group;
  std::vector<Bytes> offers;  ///< by rank of this process; each writes its own before a meeting
  std::vector<Bytes> agreed;  ///< those of the last meeting, of all ranks
};

class ProcessRounds final : public HostExchange {
 public:
  ProcessRounds(std::size_t local, std::shared_ptr<Rounds> rounds) : local_(local), rounds_(std::move(rounds)) {}
  ~ProcessRounds() override { rounds_->group->leave(local_); }

  std::vector<Bytes> all_gather(Bytes mine) override {
    rounds_->group->check();
    rounds_->offers[local_] = std::move(mine);
    const MeetingTopic topic{++entered_, "round", 0};
    rounds_->group->meet(local_, topic, [&] { rounds_->hold(topic); });
    return rounds_->agreed;
  }

  void abort(const Error& reason) noexcept override { rounds_->group->abort(reason); }

 private:
  const std::size_t local_;
  const std::shared_ptr<Rounds> rounds_;
  std::uint64_t entered_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<HostExchange>> create_round_ends(const std::shared_ptr<ProcessGroup>& group) {
  const auto rounds = std::make_shared<Rounds>(group);
  std::vector<std::unique_ptr<HostExchange>> ends;
  for (std::size_t local = 0; local < group->own().count; ++local)
    ends.push_back(std::make_unique<ProcessRounds>(local, rounds));
  return ends;
}

}  // namespace lamina::mpi
