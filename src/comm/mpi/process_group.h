#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/local/rendezvous.h"
#include "comm/mpi/exchange.h"
#include "comm/mpi/process_world.h"

namespace lamina::mpi {

/// How a group of world ranks, in ascending order, lies over processes.
GroupAddress locate(std::string name, int tag, std::span<const std::size_t> ranks, const Processes& processes);

/// A group of ranks of several processes, as those of this process share it. They meet here, and the last one of them
/// meets the other processes. It ends with its world, and its world with it. Thread safe.
class ProcessGroup {
 public:
  ProcessGroup(std::shared_ptr<ProcessWorld> world, GroupAddress address,
               std::optional<std::chrono::milliseconds> time_limit);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const GroupPart& own() const noexcept { return address_->own; }
  const std::vector<GroupPart>& others() const noexcept { return address_->others; }
  const GroupAddress& address() const noexcept { return *address_; }
  std::size_t size() const noexcept { return address_->size(); }

  /// Blocks until all ranks of this process have come; the last does the work. `local` counts them.
  void meet(std::size_t local, const MeetingTopic& topic, const std::function<void()>& work);
  /// The work's part between processes: sends to each of `others` and gives what came from each.
  std::vector<Bytes> exchange(const MeetingTopic& topic, std::vector<std::shared_ptr<const Bytes>> outgoing);

  void leave(std::size_t local) noexcept { rendezvous_.leave(local); }
  void abort(const Error& reason) noexcept { world_->fate()->end(reason); }
  void check() const { world_->fate()->check(); }

 private:
  const std::shared_ptr<ProcessWorld> world_;
  const std::shared_ptr<const GroupAddress> address_;
  const std::optional<std::chrono::milliseconds> time_limit_;
  local::Rendezvous rendezvous_;
  SharedFate::Subscription subscription_;
};

}  // namespace lamina::mpi
