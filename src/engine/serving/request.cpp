#include "engine/serving/request.h"

#include <utility>

#include "base/error.h"

namespace lamina::detail {

Request::Request(std::uint64_t id, GenerateRequest request, Observer observer)
    : id_(id),
      request_(std::move(request)),
      observer_(std::move(observer)),
      results_(std::max<std::size_t>(1, request_.num_images_per_prompt)) {
  status_.pictures_asked = results_.size();
}

bool Request::is_over_locked() const {
  return status_.state != RequestState::queued && status_.state != RequestState::running;
}

RequestStatus Request::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Request::is_over() const {
  const std::lock_guard lock(mutex_);
  return is_over_locked();
}

bool Request::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Request::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_over_locked(); });
}

bool Request::wait_for(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return is_over_locked(); });
}

std::vector<GenerateResult> Request::take_results() {
  wait();
  const std::lock_guard lock(mutex_);
  if (error_) throw *error_;
  if (std::exchange(taken_, true))
    lamina::fail(ErrorCode::invalid_argument, "the results of request {} were taken before", id_);
  std::vector<GenerateResult> results;
  for (std::optional<GenerateResult>& result : results_) results.push_back(std::move(*result));
  results_.clear();
  return results;
}

void Request::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

void Request::set_position(std::size_t requests_ahead) {
  const std::lock_guard lock(mutex_);
  status_.position = requests_ahead;
}

void Request::set_progress(const Progress& progress, double seconds_left) {
  const std::lock_guard lock(mutex_);
  if (is_over_locked()) return;
  status_.state = RequestState::running;
  status_.position = 0;
  status_.progress = progress;
  status_.seconds_left = seconds_left;
}

void Request::add_result(std::size_t picture, GenerateResult result) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_locked()) return;
    results_.at(picture) = std::move(result);
    if (++status_.pictures < status_.pictures_asked) return;
    status_.state = RequestState::finished;
    status_.seconds_left = 0;
  }
  changed_.notify_all();
}

void Request::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_locked()) return;
    error_ = error;
    status_.state = error.code() == ErrorCode::cancelled ? RequestState::cancelled : RequestState::failed;
    results_.clear();
  }
  changed_.notify_all();
}

}  // namespace lamina::detail

namespace lamina {

const char* to_string(RequestState state) noexcept {
  switch (state) {
    case RequestState::queued: return "queued";
    case RequestState::running: return "running";
    case RequestState::finished: return "finished";
    case RequestState::failed: return "failed";
    case RequestState::cancelled: return "cancelled";
  }
  return "unknown";
}

Ticket::Ticket(std::shared_ptr<detail::Request> request) noexcept : request_(std::move(request)) {}
Ticket::Ticket(Ticket&&) noexcept = default;

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this == &other) return *this;
  if (request_) request_->cancel();
  request_ = std::move(other.request_);
  return *this;
}

Ticket::~Ticket() {
  if (request_) request_->cancel();
}

std::uint64_t Ticket::id() const noexcept {
  return request_->id();
}

RequestStatus Ticket::status() const {
  return request_->status();
}

void Ticket::wait() const {
  request_->wait();
}

bool Ticket::wait_for(std::chrono::milliseconds timeout) const {
  return request_->wait_for(timeout);
}

void Ticket::cancel() noexcept {
  request_->cancel();
}

std::vector<GenerateResult> Ticket::results() {
  return request_->take_results();
}

GenerateResult Ticket::result() {
  std::vector<GenerateResult> all = results();
  expects(all.size() == 1, "result() of a request of {} pictures", all.size());
  return std::move(all.front());
}

}  // namespace lamina
