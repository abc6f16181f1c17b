#include "device/cpu/cpu_event.h"

#include <utility>

#include "base/error.h"

namespace lamina::cpu {

Point& CpuEvent::renew() {
  runtime_.retire(std::exchange(point_, std::make_unique<Point>()));
  return *point_;
}

std::chrono::nanoseconds CpuEvent::time() const {
  expects(point_ != nullptr, "the time of event '{}', which was not recorded", name());
  expects(point_->is_reached(), "the time of event '{}', which was not reached yet", name());
  return point_->wait();
}

bool CpuEvent::do_synchronize() {
  if (!point_) return true;
  if (runtime_.drops_wait("host", name())) return false;
  runtime_.host_waited_until(point_->wait());
  return true;
}

}  // namespace lamina::cpu
