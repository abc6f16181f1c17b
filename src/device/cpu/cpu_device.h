#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "device/device.h"

namespace lamina {

/// Faults and delays that tests plant in the CPU device. Names are the stream's, the work's and the event's.
/// The functions are called by stream threads and by the launching thread, possibly at once.
struct CpuFaults {
  /// Real time that a stream sleeps before a piece of work.
  std::function<std::chrono::nanoseconds(std::string_view stream, std::string_view work)> delay;
  /// The k-th allocation / copy to or within the device from now (1 = the next) fails with out_of_device_memory /
  /// device.
  std::uint64_t fail_allocation = 0;
  std::uint64_t fail_copy = 0;
  /// True: the stream's wait for the event is left out, as a bug would. The host's waits (`Event::synchronize`) ask
  /// with stream "host". Only asked where the event has been recorded.
  std::function<bool(std::string_view stream, std::string_view event)> drop_wait;
};

struct CpuDeviceOptions {
  std::optional<std::size_t> memory_limit_bytes;
  /// Where pinned memory is booked; null: in the process's shared budget.
  std::shared_ptr<HostMemoryBudget> host_memory = nullptr;
  /// With it, events tell virtual time: each stream's clock advances by this cost per piece of work (`size_bytes` of
  /// copies, fills and collectives, 0 otherwise), waits move it forward, and real time is ignored. All streams start at
  /// 0. The host has such a clock too: launching costs it nothing, blocking on an event or a stream moves it forward,
  /// and no work begins before it was launched.
  std::function<std::chrono::nanoseconds(std::string_view stream, std::string_view work, std::size_t size_bytes)>
      virtual_cost;
  CpuFaults faults;
};

/// The CPU as a faithful accelerator: streams are worker threads that run queued work in order, so the caller runs
/// ahead and a missing wait is a real race. Device memory is booked against a limit and filled with NaN bytes on
/// allocation.
std::unique_ptr<Device> create_cpu_device(CpuDeviceOptions options = {});

/// Replaces the faults of a CPU device while no work is pending.
void set_cpu_faults(Device& cpu_device, CpuFaults faults);

/// OpenMP team size of every stream thread: results of oneDNN depend on it, so it is one constant per process.
/// Reads LAMINA_CPU_THREADS once, else the number of cores this process may run on. Throws invalid_argument naming the
/// variable where it is no whole number from 1 to 1024; so does `create_cpu_device`.
int cpu_team_size();

}  // namespace lamina
