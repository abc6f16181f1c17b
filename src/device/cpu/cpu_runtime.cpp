#include "device/cpu/cpu_runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace lamina::cpu {

bool Countdown::strikes() {
  std::uint64_t left = calls_left_;
  while (left > 0 && !calls_left_.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

CpuRuntime::CpuRuntime(CpuDeviceOptions options) : virtual_cost_(std::move(options.virtual_cost)) {
  set_faults(std::move(options.faults));
}

void CpuRuntime::set_faults(CpuFaults faults) {
  allocation_fault_.start(faults.fail_allocation);
  copy_fault_.start(faults.fail_copy);
  faults_ = std::move(faults);
}

void CpuRuntime::delay(std::string_view stream, std::string_view work) const {
  if (faults_.delay) std::this_thread::sleep_for(faults_.delay(stream, work));
}

bool CpuRuntime::drops_wait(std::string_view stream, std::string_view event) const {
  return faults_.drop_wait && faults_.drop_wait(stream, event);
}

std::chrono::nanoseconds CpuRuntime::virtual_cost(std::string_view stream, std::string_view work,
                                                  std::size_t size_bytes) const {
  return virtual_cost_ ? virtual_cost_(stream, work, size_bytes) : std::chrono::nanoseconds{0};
}

void CpuRuntime::host_waited_until(std::chrono::nanoseconds time) noexcept {
  host_time_ = std::max(host_time_, time);
}

void CpuRuntime::add_worker(SerialWorker& worker) {
  const std::lock_guard lock(workers_mutex_);
  workers_.push_back(&worker);
}

void CpuRuntime::remove_worker(SerialWorker& worker) noexcept {
  const std::lock_guard lock(workers_mutex_);
  std::erase(workers_, &worker);
}

void CpuRuntime::drain() noexcept {
  std::vector<std::unique_ptr<Point>> retired;  // taken before the wait: what refers to them is queued already
  {
    const std::lock_guard lock(retired_mutex_);
    retired.swap(retired_);
  }
  const std::lock_guard lock(workers_mutex_);
  for (const SerialWorker* worker : workers_) worker->drain();
}

void CpuRuntime::retire(std::unique_ptr<Point> point) {
  if (!point) return;
  const std::lock_guard lock(retired_mutex_);
  retired_.push_back(std::move(point));
}

}  // namespace lamina::cpu
