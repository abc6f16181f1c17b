#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/cpu/point.h"
#include "device/cpu/serial_worker.h"

namespace lamina::cpu {

/// A fault that strikes once: at the k-th call from now (0: never). Thread safe.
class Countdown {
 public:
  void start(std::uint64_t calls) { calls_left_ = calls; }
  bool strikes();

 private:
  std::atomic<std::uint64_t> calls_left_{0};
};

/// What the streams, events and memory of one CPU device share: planted faults, the virtual clock of the host, and the
/// workers to wait for before memory is freed.
class CpuRuntime {
 public:
  explicit CpuRuntime(CpuDeviceOptions options);

  void set_faults(CpuFaults faults);
  void delay(std::string_view stream, std::string_view work) const;
  bool drops_wait(std::string_view stream, std::string_view event) const;
  bool allocation_fails() { return allocation_fault_.strikes(); }
  bool copy_fails() { return copy_fault_.strikes(); }

  bool has_virtual_time() const noexcept { return static_cast<bool>(virtual_cost_); }
  std::chrono::nanoseconds virtual_cost(std::string_view stream, std::string_view work, std::size_t size_bytes) const;
  /// The host's virtual clock; for the launching thread.
  std::chrono::nanoseconds host_time() const noexcept { return host_time_; }
  void host_waited_until(std::chrono::nanoseconds time) noexcept;

  void add_worker(SerialWorker& worker);
  void remove_worker(SerialWorker& worker) noexcept;
  /// Blocks until all work enqueued on the device so far is done.
  void drain() noexcept;
  /// Takes a point (or nullptr) that no event stands for any more. Queues may still refer to it: it dies with the next
  /// drain.
  void retire(std::unique_ptr<Point> point);

 private:
  const decltype(CpuDeviceOptions::virtual_cost) virtual_cost_;
  CpuFaults faults_;
  Countdown allocation_fault_;
  Countdown copy_fault_;
  std::chrono::nanoseconds host_time_{0};
  std::mutex workers_mutex_;
  std::vector<SerialWorker*> workers_;
  std::mutex retired_mutex_;
  std::vector<std::unique_ptr<Point>> retired_;
};

}  // namespace lamina::cpu
