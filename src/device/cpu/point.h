#pragma once

#include <chrono>

#include "device/cpu/progress.h"

namespace lamina::cpu {

/// A place in a stream's queue: its stream's thread reaches it once, any thread may wait for it.
class Point {
 public:
  void reach(std::chrono::nanoseconds time) {
    time_ = time;
    reached_.raise();
  }
  bool is_reached() const noexcept { return reached_.value() > 0; }
  /// Blocks until reached; the time at which it was.
  std::chrono::nanoseconds wait() const {
    reached_.wait_for(1);
    return time_;
  }

 private:
  Progress reached_;
  std::chrono::nanoseconds time_{0};
};

}  // namespace lamina::cpu
