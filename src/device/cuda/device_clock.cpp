#include "device/cuda/device_clock.h"

#include <utility>

namespace lamina::cuda {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::seconds kAnchorReach{1};

nanoseconds elapsed(const EventHandle& from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from.get(), to), "time between two events");
  return std::chrono::round<nanoseconds>(std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace

DeviceClock::DeviceClock() = default;

nanoseconds DeviceClock::time_of(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  if (elapsed(anchor_, event) > kAnchorReach) {
    EventHandle next = record_anchor();
    anchor_time_ += elapsed(anchor_, next.get());
    anchor_ = std::move(next);
  }
  return anchor_time_ + elapsed(anchor_, event);
}

EventHandle DeviceClock::record_anchor() const {
  EventHandle anchor = make_event_handle();
  check(cudaEventRecord(anchor.get(), stream_.get()), "recording the clock's event");
  check(cudaEventSynchronize(anchor.get()), "waiting for the clock's event");
  return anchor;
}

}  // namespace lamina::cuda
