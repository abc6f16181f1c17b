#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lamina/error.h"

namespace lamina::local {

/// Where the threads of one process that stand for the ranks of a group meet, again and again. The rank that comes last
/// does the work of the meeting while the others wait, so whatever it touches of theirs holds still. Threads block
/// without spinning. Thread safe.
class Rendezvous {
 public:
  /// What a rank believes the meeting is about; all ranks of one must agree.
  struct Topic {
    std::uint64_t sequence = 0;  ///< meetings of the group so far, as the rank counts them
    std::string what;            ///< "all-gather"
    std::size_t size_bytes = 0;
    bool operator==(const Topic&) const = default;
  };

  /// With `time_limit`, a rank that waits longer ends the group, naming who did not come.
  Rendezvous(std::string name, std::size_t ranks, std::optional<std::chrono::milliseconds> time_limit);

  /// Blocks until all ranks have come. `work` is run by the one that comes last; an exception of it ends the group.
  /// Throws the reason for which the group ended: internal where topics differ, device where a rank has left or does
  /// not come in time, or what `abort` gave.
  void meet(std::size_t rank, const Topic& topic, const std::function<void()>& work);

  /// Ends the group for all ranks, unless it has ended.
  void abort(const Error& reason) noexcept;
  /// `rank` comes to no further meeting: who waits for it, or will, ends the group.
  void leave(std::size_t rank) noexcept;
  void check() const;

 private:
  void compare_topics(std::size_t rank, const Topic& topic);
  void hold(const std::function<void()>& work);
  void wait_for_others(const Topic& topic, std::unique_lock<std::mutex>& lock);
  void end(const Error& reason);
  [[noreturn]] void end_and_throw(const Error& reason);
  bool misses_one_that_left() const;
  std::string absent_ranks() const;
  std::string describe(const Topic& topic) const;

  const std::string name_;
  const std::optional<std::chrono::milliseconds> time_limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Topic>> present_;  // by rank
  std::vector<bool> left_;                     // by rank
  std::uint64_t meetings_ = 0;                 // that are over
  std::optional<Error> reason_;
};

}  // namespace lamina::local
