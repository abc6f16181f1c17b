#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lamina/error.h"
#include "lamina/ticket.h"

namespace lamina::detail {

/// What a ticket and the engine share of one request. Thread safe. It ends once: what comes later is dropped.
class Request {
 public:
  Request(std::uint64_t id, GenerateRequest request, Observer observer);

  std::uint64_t id() const noexcept { return id_; }
  const GenerateRequest& request() const noexcept { return request_; }
  const Observer& observer() const noexcept { return observer_; }

  RequestStatus status() const;
  bool is_over() const;
  bool is_cancelled() const;
  void wait() const;
  bool wait_for(std::chrono::milliseconds timeout) const;
  std::vector<GenerateResult> take_results();

  /// Asks for its end; the engine's thread sees to it.
  void cancel() noexcept;

  // The engine's half.
  void set_position(std::size_t requests_ahead);
  void set_progress(const Progress& progress, double seconds_left);
  /// The last picture finishes the request.
  void add_result(std::size_t picture, GenerateResult result);
  /// `cancelled` where the error says so.
  void fail(const Error& error);

 private:
  bool is_over_locked() const;

  const std::uint64_t id_;
  const GenerateRequest request_;
  const Observer observer_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  RequestStatus status_;
  bool cancelled_ = false;
  std::vector<std::optional<GenerateResult>> results_;
  bool taken_ = false;
  std::optional<Error> error_;
};

}  // namespace lamina::detail
