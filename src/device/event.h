#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "device/order_checker.h"

namespace lamina {

class Stream;

/// A point in a stream's work, as on a GPU: `Stream::record` moves it to "after all work enqueued so far",
/// `Stream::wait` makes another stream wait for the point recorded last (no wait where none was). Must not be destroyed
/// while a stream still has to wait for it. Recorded and waited for by the launching thread only.
class Event {
 public:
  explicit Event(std::string name) : name_(std::move(name)) {}
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// What the event stands for ("ready", "free", "staging"): used in messages and by fault injection.
  const std::string& name() const noexcept { return name_; }

  /// Blocks the host until the point recorded last is reached; returns at once where none was.
  void synchronize();

  /// The time at which the device reached the point recorded last, on the clock of the event's device; all events of
  /// one device share that clock, its origin means nothing. The point must have been reached.
  virtual std::chrono::nanoseconds time() const = 0;

 private:
  friend class Stream;

  /// False where a test double leaves the wait out; then the order checker must not learn of it either.
  virtual bool do_synchronize() = 0;

  std::string name_;
  OrderChecker* order_ = nullptr;  ///< set by the first record
  OrderChecker::Clock clock_;
};

}  // namespace lamina
