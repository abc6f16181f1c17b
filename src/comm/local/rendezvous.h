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

#include "comm/meeting_topic.h"
#include "lamina/error.h"

namespace lamina::local {

/// Where the threads of one process that stand for the ranks of a group meet, again and again. The rank that comes last
/// does the work of the meeting while the others wait, so whatever it touches of theirs holds still. Threads block
/// without spinning. Thread safe.
class Rendezvous {
 public:
  using Topic = MeetingTopic;

  /// With `time_limit`, a rank that waits longer ends the group, naming who did not come. Ranks are counted from 0
  /// here, and in messages from `first_rank`.
  Rendezvous(std::string name, std::size_t ranks, std::optional<std::chrono::milliseconds> time_limit,
             std::size_t first_rank = 0);

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

  const std::string name_;
  const std::optional<std::chrono::milliseconds> time_limit_;
  const std::size_t first_rank_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Topic>> present_;  // by rank
  std::vector<bool> left_;                     // by rank
  std::uint64_t meetings_ = 0;                 // that are over
  std::optional<Error> reason_;
};

}  // namespace lamina::local
