#pragma once

#include <string>
#include <utility>

#include "device/order_checker.h"

namespace lamina {

/// Keeps a range under the order checker's eye for as long as it lives. Declared behind the memory's owner, so that it
/// goes first. Move-only; the checker outlives it.
class WatchedRange {
 public:
  WatchedRange() = default;
  WatchedRange(OrderChecker& order, MemoryRange range, std::string name) : order_(&order), range_(range) {
    order.watch(range, std::move(name));
  }
  WatchedRange(WatchedRange&& other) noexcept
      : order_(std::exchange(other.order_, nullptr)), range_(std::exchange(other.range_, {})) {}
  WatchedRange& operator=(WatchedRange&& other) noexcept {
    std::swap(order_, other.order_);
    std::swap(range_, other.range_);
    return *this;
  }
  ~WatchedRange() {
    if (order_ != nullptr) order_->unwatch(range_);
  }

 private:
  OrderChecker* order_ = nullptr;
  MemoryRange range_;
};

}  // namespace lamina
