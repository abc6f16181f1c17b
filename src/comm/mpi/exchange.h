#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/meeting_topic.h"

namespace lamina::mpi {

using Bytes = std::vector<std::byte>;

/// Ranks of a group that are in one process, by their places in the group.
struct GroupPart {
  std::size_t process = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// A group as its exchanges know it.
struct GroupAddress {
  std::string name;
  int tag = 0;  ///< all that its processes send each other has it
  GroupPart own;
  std::vector<GroupPart> others;  ///< in other processes

  /// Ranks of the group, in all processes.
  std::size_t size() const noexcept;
};

/// One meeting of the processes of a group: each sends bytes to each other one. Ahead of them goes what the sender
/// believes that the meeting is about, so that nobody takes bytes for what they are not.
///
/// It owns its memory, so that it may be given up at any time: MPI cannot take back what it has begun, and the peer may
/// come yet. Only the thread that talks to MPI moves it on.
class Exchange {
 public:
  /// `outgoing`, by part of `others`, may be shared.
  Exchange(std::shared_ptr<const GroupAddress> group, MeetingTopic topic,
           std::vector<std::shared_ptr<const Bytes>> outgoing);
  /// Tells the others that the group's ranks in this process come to no further meeting.
  static std::shared_ptr<Exchange> farewell(std::shared_ptr<const GroupAddress> group);

  void start();
  /// Goes on without waiting; true when it is over. Throws internal where a peer entered another meeting, device where
  /// it left or MPI failed.
  bool advance();

  /// Behind `advance`: bytes are on their way to or from a peer that has come, so the next call will not be idle.
  bool is_transferring() const noexcept { return is_transferring_; }

  /// What came, by part; once, when it is over.
  std::vector<Bytes> take_incoming();
  /// "rank 1, 2": those of whom nothing came. Any thread may ask.
  std::string missing_ranks() const;

 private:
  struct Header {
    std::uint64_t sequence = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::array<char, 40> what{};  ///< empty: a farewell
  };
  struct Peer {
    Header sent;
    Header received;
    MPI_Request receiving_header = MPI_REQUEST_NULL;
    std::atomic<bool> has_come = false;
    std::shared_ptr<const Bytes> outgoing;
    Bytes incoming;
    std::vector<MPI_Request> transfers;
  };

  void receive(std::size_t part);
  void compare(std::size_t part) const;

  const std::shared_ptr<const GroupAddress> group_;
  const MeetingTopic topic_;
  std::vector<Peer> peers_;  // by part
  bool is_transferring_ = false;
};

}  // namespace lamina::mpi
