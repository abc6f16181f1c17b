#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "device/cpu/cpu_runtime.h"
#include "device/event.h"

namespace lamina::cpu {

/// Each record makes a fresh point: who waits for an earlier one is not disturbed.
class CpuEvent final : public Event {
 public:
  CpuEvent(CpuRuntime& runtime, std::string name) : Event(std::move(name)), runtime_(runtime) {}
  ~CpuEvent() override { runtime_.retire(std::move(point_)); }

  Point& renew();
  /// The point recorded last; nullptr where there was none.
  const Point* point() const noexcept { return point_.get(); }

  std::chrono::nanoseconds time() const override;

 private:
  bool do_synchronize() override;

  CpuRuntime& runtime_;
  std::unique_ptr<Point> point_;
};

}  // namespace lamina::cpu
