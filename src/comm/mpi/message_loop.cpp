#include "comm/mpi/message_loop.h"

#include <mpi.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/mpi/mpi_call.h"

namespace lamina::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kEagerPolls = 40;  ///< without a pause, as long as a message takes between processes of a node
constexpr microseconds kShortestPause{50};
constexpr microseconds kLongestPause{1000};
constexpr milliseconds kIdlePause{5};         ///< where nothing but the lifeline is listened to
constexpr milliseconds kLastWordLimit{2000};  ///< to tell a peer that may be gone as well

microseconds pause_after(std::size_t idle_polls) {
  const std::size_t doublings = std::min<std::size_t>((idle_polls - kEagerPolls) / 8, 10);
  return std::min(kShortestPause * (1 << doublings), kLongestPause);
}

}  // namespace

MessageLoop::MessageLoop(const LaunchedProcess& process, std::size_t ranks_per_process, milliseconds silence_limit)
    : process_(process),
      silence_limit_(silence_limit),
      processes_{process.index, process.count, ranks_per_process},
      subscription_(fate_, [this](const Error&) {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      }) {}

void MessageLoop::run() noexcept {
  try {
    join();
    serve();
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    join_failure_ = error;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    join_failure_ = Error(ErrorCode::internal, error.what());
  }
  const std::lock_guard lock(mutex_);
  has_returned_ = true;
  changed_.notify_all();
}

void MessageLoop::join() {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0)
    fail(ErrorCode::unavailable, "MPI was initialised by another part of this program; Lamina has to do that itself");
  int level = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int index = 0;
  int count = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &index);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  if (level < MPI_THREAD_FUNNELED || static_cast<std::size_t>(index) != processes_.index ||
      static_cast<std::size_t>(count) != processes_.count)
    fail(ErrorCode::unavailable, "{} calls this process {} of {}, but MPI calls it {} of {}, at thread level {}",
         process_.launcher, processes_.index, processes_.count, index, count, level);
  const std::lock_guard lock(mutex_);
  has_joined_ = true;
  changed_.notify_all();
}

/// An error of MPI itself ends the fate, and with it all that this thread has to do.
void MessageLoop::serve() {
  try {
    lifeline_.emplace(processes_, silence_limit_, fate_);
    while (!may_end()) {
      bool has_moved = lifeline_->advance();
      if (fate_->reason())
        drop_submitted();
      else
        has_moved = start_submitted() | advance_jobs() | has_moved;
      pause(has_moved);
    }
    if (!fate_->reason()) finalize();
  } catch (const Error& error) {
    fate_->end(error);
  } catch (const std::exception& error) {
    fate_->end(Error(ErrorCode::internal, error.what()));
  }
}

void MessageLoop::finalize() {
  {
    const std::lock_guard lock(mutex_);
    is_finalizing_ = true;
    changed_.notify_all();
  }
  lifeline_->close();
  check(MPI_Finalize(), "MPI_Finalize");
}

void MessageLoop::drop_submitted() {
  const std::lock_guard lock(mutex_);
  submitted_.clear();
}

bool MessageLoop::start_submitted() {
  std::deque<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(submitted_);
  }
  for (std::shared_ptr<Job>& job : jobs) active_.emplace_back(std::move(job))->exchange->start();
  return !jobs.empty();
}

bool MessageLoop::advance_jobs() {
  const bool has_moved = std::erase_if(active_, [this](const auto& job) { return advance(*job); }) > 0;
  return has_moved || std::ranges::any_of(active_, [](const auto& job) { return job->exchange->is_transferring(); });
}

/// True when it is over. One that failed has messages under way, so it stays; its group's fate has ended.
bool MessageLoop::advance(Job& job) noexcept {
  if (job.failure) return false;
  std::optional<Error> failure;
  bool is_over = false;
  try {
    is_over = job.exchange->advance();
  } catch (const Error& error) {
    failure = error;
  } catch (const std::exception& error) {
    failure = Error(ErrorCode::internal, error.what());
  }
  if (!is_over && !failure) return false;
  const std::lock_guard lock(mutex_);
  job.is_over = true;
  job.failure = failure;
  changed_.notify_all();
  return is_over;
}

bool MessageLoop::may_end() {
  {
    const std::lock_guard lock(mutex_);
    if (!is_leaving_) return false;
    if (!fate_->reason() && !(submitted_.empty() && active_.empty())) return false;
  }
  if (!fate_->reason()) {
    if (!std::exchange(has_said_goodbye_, true)) lifeline_->say_goodbye();
    return lifeline_->is_over();
  }
  if (!last_word_until_) last_word_until_ = Clock::now() + kLastWordLimit;
  return lifeline_->has_told() || Clock::now() > *last_word_until_;
}

void MessageLoop::pause(bool has_moved) {
  idle_polls_ = has_moved ? 0 : idle_polls_ + 1;
  if (idle_polls_ <= kEagerPolls && !active_.empty()) return std::this_thread::yield();
  std::unique_lock lock(mutex_);
  const auto duration = active_.empty() ? kIdlePause : pause_after(std::max(idle_polls_, kEagerPolls));
  const bool was_leaving = is_leaving_;
  changed_.wait_for(lock, duration, [&] { return !submitted_.empty() || is_leaving_ != was_leaving; });
  if (!submitted_.empty()) idle_polls_ = 0;
}

void MessageLoop::wait_until_joined(milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return has_joined_ || has_returned_; });
  if (join_failure_) throw *join_failure_;
  if (!has_joined_)
    fail(ErrorCode::unavailable, "the {} processes that {} started have not all come after {} s", process_.count,
         process_.launcher, std::chrono::duration_cast<std::chrono::seconds>(limit).count());
}

std::shared_ptr<MessageLoop::Job> MessageLoop::submit(std::shared_ptr<Exchange> exchange) {
  const auto job = std::make_shared<Job>(Job{std::move(exchange), false, std::nullopt});
  const std::lock_guard lock(mutex_);
  expects(!is_leaving_ && !has_returned_, "an exchange of a process that has left");
  submitted_.push_back(job);
  changed_.notify_all();
  return job;
}

void MessageLoop::post(std::shared_ptr<Exchange> exchange) {
  if (!fate_->reason()) submit(std::move(exchange));
}

bool MessageLoop::carry_out(const std::shared_ptr<Exchange>& exchange, std::optional<milliseconds> limit) {
  fate_->check();
  const std::shared_ptr<Job> job = submit(exchange);
  std::unique_lock lock(mutex_);
  const auto has_ended = [&] { return job->is_over || fate_->reason(); };
  if (limit && !changed_.wait_for(lock, *limit, has_ended)) return false;
  if (!limit) changed_.wait(lock, has_ended);
  if (!job->is_over) fate_->check();
  if (job->failure) throw *job->failure;
  return true;
}

bool MessageLoop::leave(milliseconds limit) {
  std::unique_lock lock(mutex_);
  is_leaving_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !has_joined_ || has_returned_ || is_finalizing_ || fate_->reason(); });
  return changed_.wait_for(lock, limit, [&] { return has_returned_; });
}

}  // namespace lamina::mpi
