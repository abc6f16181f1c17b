#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "device/cuda/device_clock.h"

namespace lamina::cuda {

/// Makes device `index` current on the calling thread: streams and events belong to it, and several devices and
/// launching threads share a process.
void make_current(int index);

/// What the streams and events of one CUDA device share. Thread safe.
class Gpu {
 public:
  using Delay = std::function<std::chrono::nanoseconds(std::string_view stream, std::string_view work)>;

  Gpu(int index, Delay delay);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const noexcept { return index_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  DeviceClock& clock() noexcept { return *clock_; }

  void make_current() const { cuda::make_current(index_); }
  /// As `make_current`, for destructors: false, with a line in the log, where the device is lost.
  bool try_make_current() const noexcept;

  /// Enqueues the delay that tests ask for before `work`.
  void delay(cudaStream_t stream, std::string_view stream_name, std::string_view work) const;

 private:
  int index_;
  int multiprocessors_ = 0;
  Delay delay_;
  std::unique_ptr<DeviceClock> clock_;
};

}  // namespace lamina::cuda
