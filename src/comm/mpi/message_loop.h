#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/launched_process.h"
#include "comm/mpi/exchange.h"
#include "comm/mpi/lifeline.h"
#include "comm/mpi/processes.h"
#include "comm/shared_fate.h"

namespace lamina::mpi {

/// What runs on the one thread of a process that talks to MPI, from MPI_Init to MPI_Finalize. No other thread calls
/// MPI, so MPI needs no locks; and this one never waits inside MPI in between, so nothing that peers do or leave undone
/// holds it up. It polls: often while messages come, then more and more rarely, down to once in a millisecond, and
/// every 5 ms where nothing is to be exchanged.
class MessageLoop {
 public:
  MessageLoop(const LaunchedProcess& process, std::size_t ranks_per_process, std::chrono::milliseconds silence_limit);

  /// The thread's work. Returns behind MPI_Finalize where this process and all others left; else, when the fate has
  /// ended and this process left, without it: MPI may then still hold messages of this loop, which is never destroyed.
  void run() noexcept;

  /// Blocks until MPI connected all processes. Throws unavailable where it did not, or not within `limit`.
  void wait_until_joined(std::chrono::milliseconds limit);
  /// Blocks until `exchange` is over; throws what ended it, or the fate's reason. With a limit, false where it is not
  /// over by then.
  bool carry_out(const std::shared_ptr<Exchange>& exchange, std::optional<std::chrono::milliseconds> limit);
  /// Starts an exchange for which nobody waits, unless the fate has ended.
  void post(std::shared_ptr<Exchange> exchange);
  /// Asks `run` to return, and waits until it has: for the others to leave, too, as long as they take; for MPI no
  /// longer than `limit`. False where it has not returned by then.
  bool leave(std::chrono::milliseconds limit);

  const Processes& processes() const noexcept { return processes_; }
  const std::shared_ptr<SharedFate>& fate() const noexcept { return fate_; }

 private:
  struct Job {
    std::shared_ptr<Exchange> exchange;
    bool is_over = false;  // with mutex_ held
    std::optional<Error> failure;
  };

  void join();
  void serve();
  void finalize();
  std::shared_ptr<Job> submit(std::shared_ptr<Exchange> exchange);
  void drop_submitted();
  bool start_submitted();
  bool advance_jobs();
  bool advance(Job& job) noexcept;
  bool may_end();
  void pause(bool has_moved);

  const LaunchedProcess process_;
  const std::chrono::milliseconds silence_limit_;
  Processes processes_;
  const std::shared_ptr<SharedFate> fate_ = std::make_shared<SharedFate>();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> submitted_;
  std::optional<Error> join_failure_;
  bool has_joined_ = false;
  bool is_leaving_ = false;
  bool is_finalizing_ = false;
  bool has_returned_ = false;
  SharedFate::Subscription subscription_;  // the first: who waits for an exchange holds locks that others wait for

  // The thread's own.
  std::optional<Lifeline> lifeline_;
  std::vector<std::shared_ptr<Job>> active_;
  std::size_t idle_polls_ = 0;
  bool has_said_goodbye_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_word_until_;
};

}  // namespace lamina::mpi
