#include "comm/mpi/exchange.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/mpi/mpi_call.h"

namespace lamina::mpi {
namespace {

/// MPI counts in int, and one call should not keep its thread for long.
constexpr std::size_t kLongestMessage = std::size_t{16} << 20;

/// Calls `transfer(offset, size)` for each message of so many bytes.
template <typename Transfer>
void cut(std::size_t size_bytes, Transfer transfer) {
  for (std::size_t offset = 0; offset < size_bytes; offset += kLongestMessage)
    transfer(offset, static_cast<int>(std::min(kLongestMessage, size_bytes - offset)));
}

bool are_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return done != 0;
}

}  // namespace

std::size_t GroupAddress::size() const noexcept {
  std::size_t size = own.count;
  for (const GroupPart& part : others) size += part.count;
  return size;
}

Exchange::Exchange(std::shared_ptr<const GroupAddress> group, MeetingTopic topic,
                   std::vector<std::shared_ptr<const Bytes>> outgoing)
    : group_(std::move(group)), topic_(std::move(topic)), peers_(group_->others.size()) {
  expects(topic_.what.size() < Header{}.what.size(), "'{}' is too long for a meeting's name", topic_.what);
  for (std::size_t part = 0; part < peers_.size(); ++part) {
    Peer& peer = peers_[part];
    peer.outgoing = outgoing.empty() ? nullptr : std::move(outgoing[part]);
    peer.sent = {topic_.sequence, topic_.size_bytes, peer.outgoing ? peer.outgoing->size() : 0, {}};
    topic_.what.copy(peer.sent.what.data(), topic_.what.size());
  }
}

std::shared_ptr<Exchange> Exchange::farewell(std::shared_ptr<const GroupAddress> group) {
  return std::make_shared<Exchange>(std::move(group), MeetingTopic{}, std::vector<std::shared_ptr<const Bytes>>{});
}

void Exchange::start() {
  for (std::size_t part = 0; part < peers_.size(); ++part) {
    Peer& peer = peers_[part];
    const int process = static_cast<int>(group_->others[part].process);
    const auto send = [&](const void* data, int size) {
      check(MPI_Isend(data, size, MPI_BYTE, process, group_->tag, MPI_COMM_WORLD, &peer.transfers.emplace_back()),
            "MPI_Isend");
    };
    send(&peer.sent, sizeof(Header));
    if (topic_.what.empty()) continue;
    check(MPI_Irecv(&peer.received, sizeof(Header), MPI_BYTE, process, group_->tag, MPI_COMM_WORLD,
                    &peer.receiving_header),
          "MPI_Irecv");
    cut(peer.sent.payload_bytes, [&](std::size_t offset, int size) { send(peer.outgoing->data() + offset, size); });
  }
}

bool Exchange::advance() {
  bool over = true;
  is_transferring_ = false;
  for (std::size_t part = 0; part < peers_.size(); ++part) {
    Peer& peer = peers_[part];
    if (!topic_.what.empty() && !peer.has_come) {
      int has_come = 0;
      check(MPI_Test(&peer.receiving_header, &has_come, MPI_STATUS_IGNORE), "MPI_Test");
      if (has_come != 0) receive(part);
      over = over && has_come != 0;
    }
    if (are_done(peer.transfers)) continue;
    over = false;
    is_transferring_ = is_transferring_ || peer.has_come;
  }
  return over;
}

void Exchange::receive(std::size_t part) {
  compare(part);
  Peer& peer = peers_[part];
  peer.has_come = true;
  peer.incoming.resize(peer.received.payload_bytes);
  cut(peer.incoming.size(), [&](std::size_t offset, int size) {
    check(MPI_Irecv(peer.incoming.data() + offset, size, MPI_BYTE, static_cast<int>(group_->others[part].process),
                    group_->tag, MPI_COMM_WORLD, &peer.transfers.emplace_back()),
          "MPI_Irecv");
  });
}

void Exchange::compare(std::size_t part) const {
  const Header& header = peers_[part].received;
  const MeetingTopic theirs{header.sequence, header.what.data(), header.size_bytes};
  if (theirs.what.empty())
    fail(ErrorCode::device, "group '{}' waits in {} for rank {}, which left", group_->name, describe(topic_),
         group_->others[part].first);
  if (theirs != topic_)
    throw disagreement(group_->name, {group_->own.first, topic_}, {group_->others[part].first, theirs});
}

std::vector<Bytes> Exchange::take_incoming() {
  std::vector<Bytes> incoming;
  for (Peer& peer : peers_) incoming.push_back(std::move(peer.incoming));
  return incoming;
}

std::string Exchange::missing_ranks() const {
  std::string names;
  for (std::size_t part = 0; part < peers_.size(); ++part) {
    const GroupPart& ranks = group_->others[part];
    if (peers_[part].has_come) continue;
    for (std::size_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank)
      names += fmt::format("{}{}", names.empty() ? "rank " : ", ", rank);
  }
  return names;
}

}  // namespace lamina::mpi
