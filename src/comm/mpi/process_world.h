#pragma once

#include <chrono>
#include <thread>

#include "comm/launched_process.h"
#include "comm/mpi/message_loop.h"

namespace lamina::mpi {

/// This process among those that were started with it, from MPI's beginning to its end: a process is in one world,
/// once. Groups keep it alive. When it dies it waits for the other processes to be done, unless its fate has ended.
class ProcessWorld {
 public:
  /// Throws unavailable where not all processes come.
  ProcessWorld(const LaunchedProcess& process, std::size_t ranks_per_process, std::chrono::milliseconds silence_limit);
  ~ProcessWorld();
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;

  MessageLoop& loop() noexcept { return loop_; }
  const Processes& processes() const noexcept { return loop_.processes(); }
  const std::shared_ptr<SharedFate>& fate() const noexcept { return loop_.fate(); }

 private:
  void leave(std::chrono::seconds limit) noexcept;

  MessageLoop& loop_;
  std::thread thread_;
};

}  // namespace lamina::mpi
