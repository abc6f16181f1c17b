#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lamina/generate.h"

namespace lamina {

enum class RequestState {
  queued,     ///< accepted; nothing of it runs yet
  running,    ///< some of its pictures are being made
  finished,   ///< all pictures are made
  failed,     ///< it ended with an error of its own, or with the engine's
  cancelled,  ///< it was withdrawn
};

/// "queued", "running", ...
const char* to_string(RequestState state) noexcept;

struct RequestStatus {
  RequestState state = RequestState::queued;
  std::size_t position = 0;        ///< while queued: requests that came before it and are not running yet
  Progress progress;               ///< while running: of the picture that is furthest behind
  double seconds_left = 0;         ///< of that stage, from its passes so far; 0 where nothing is known
  std::size_t pictures = 0;        ///< finished so far
  std::size_t pictures_asked = 1;  ///< GenerateRequest::num_images_per_prompt
};

/// What the sender of a request is told; either may be unset. Calls come one at a time, on the engine's thread between
/// passes, so a slow observer delays the engine. An exception ends the request with that error; the engine goes on. An
/// observer may cancel tickets and submit requests, but must not wait for one, nor destroy the engine.
struct Observer {
  ProgressFunction progress;
  /// Each picture as soon as it is made, in order. The result stays the ticket's.
  std::function<void(std::size_t picture, const GenerateResult&)> finished;
};

namespace detail {
class Request;
}

/// A submitted request, held by whoever sent it. Thread safe, except that results are taken and the ticket is moved or
/// destroyed by one thread. It may outlive its engine.
class Ticket {
 public:
  Ticket(Ticket&&) noexcept;
  Ticket& operator=(Ticket&&) noexcept;
  /// Cancels, without waiting.
  ~Ticket();

  /// Ascending in the order of submission; the engine's snapshot and log name requests by it.
  std::uint64_t id() const noexcept;
  RequestStatus status() const;

  /// Blocks until the request is finished, failed or cancelled.
  void wait() const;
  /// The same for no longer than `timeout`; whether the request is over.
  bool wait_for(std::chrono::milliseconds timeout) const;

  /// Withdraws the request: within two passes it holds nothing of the device any more. No effect once it is over.
  void cancel() noexcept;

  /// Waits, and gives the pictures in order. Throws the Error with which the request failed, cancelled where it was,
  /// and invalid_argument where the results were taken before.
  std::vector<GenerateResult> results();
  /// The same for a request of one picture.
  GenerateResult result();

 private:
  friend class Engine;
  explicit Ticket(std::shared_ptr<detail::Request> request) noexcept;

  std::shared_ptr<detail::Request> request_;
};

}  // namespace lamina
