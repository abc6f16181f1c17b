#include "comm/local/rendezvous.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lamina::local {

Rendezvous::Rendezvous(std::string name, std::size_t ranks, std::optional<std::chrono::milliseconds> time_limit,
                       std::size_t first_rank)
    : name_(std::move(name)), time_limit_(time_limit), first_rank_(first_rank), present_(ranks), left_(ranks) {}

void Rendezvous::meet(std::size_t rank, const Topic& topic, const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  if (reason_) throw *reason_;
  compare_topics(rank, topic);
  present_[rank] = topic;
  if (std::ranges::all_of(present_, [](const auto& other) { return other.has_value(); }))
    hold(work);
  else
    wait_for_others(topic, lock);
}

void Rendezvous::compare_topics(std::size_t rank, const Topic& topic) {
  if (present_[rank])
    end_and_throw(
        Error(ErrorCode::internal, fmt::format("rank {} of group '{}' enters {} while it is still in {}",
                                               first_rank_ + rank, name_, describe(topic), describe(*present_[rank]))));
  for (std::size_t other = 0; other < present_.size(); ++other) {
    if (!present_[other] || *present_[other] == topic) continue;
    end_and_throw(disagreement(name_, {first_rank_ + rank, topic}, {first_rank_ + other, *present_[other]}));
  }
}

void Rendezvous::hold(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    end_and_throw(error);
  } catch (const std::exception& error) {
    end_and_throw(
        Error(ErrorCode::internal, fmt::format("a collective of group '{}' failed: {}", name_, error.what())));
  }
  std::ranges::fill(present_, std::nullopt);
  ++meetings_;
  changed_.notify_all();
}

void Rendezvous::wait_for_others(const Topic& topic, std::unique_lock<std::mutex>& lock) {
  const std::uint64_t meeting = meetings_;
  const auto is_over = [&] { return meetings_ != meeting || reason_.has_value() || misses_one_that_left(); };
  bool in_time = true;
  if (time_limit_)
    in_time = changed_.wait_for(lock, *time_limit_, is_over);
  else
    changed_.wait(lock, is_over);
  if (meetings_ != meeting) return;
  if (reason_) throw *reason_;
  end_and_throw(Error(ErrorCode::device,
                      fmt::format("group '{}' waits in {} for {}, which {}", name_, describe(topic), absent_ranks(),
                                  in_time ? "left" : fmt::format("did not come within {} ms", time_limit_->count()))));
}

void Rendezvous::end(const Error& reason) {
  if (reason_) return;
  reason_ = reason;
  changed_.notify_all();
}

void Rendezvous::end_and_throw(const Error& reason) {
  end(reason);
  throw *reason_;
}

void Rendezvous::abort(const Error& reason) noexcept {
  const std::lock_guard lock(mutex_);
  end(reason);
}

void Rendezvous::leave(std::size_t rank) noexcept {
  const std::lock_guard lock(mutex_);
  left_[rank] = true;
  changed_.notify_all();
}

void Rendezvous::check() const {
  const std::lock_guard lock(mutex_);
  if (reason_) throw *reason_;
}

bool Rendezvous::misses_one_that_left() const {
  for (std::size_t rank = 0; rank < left_.size(); ++rank)
    if (left_[rank] && !present_[rank]) return true;
  return false;
}

/// Those that left, else all that are not there.
std::string Rendezvous::absent_ranks() const {
  const bool some_left = misses_one_that_left();
  std::string names;
  for (std::size_t rank = 0; rank < present_.size(); ++rank)
    if (!present_[rank] && (left_[rank] || !some_left))
      names += fmt::format("{}{}", names.empty() ? "rank " : ", ", first_rank_ + rank);
  return names;
}

}  // namespace lamina::local
