#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <mutex>

#include "device/cuda/handles.h"

namespace lamina::cuda {

/// The clock that a device's events share. CUDA tells the time between two events as a float of milliseconds, too
/// coarse after some minutes: 0.06 ms after a quarter of an hour. So times are taken from an anchor, an event of the
/// clock's own that is recorded again when a later event lies more than a second behind it. Thread safe; the device is
/// current wherever it is called, made and destroyed.
class DeviceClock {
 public:
  DeviceClock();

  /// Time of an event that was reached; the clock began at 0.
  std::chrono::nanoseconds time_of(cudaEvent_t event);

 private:
  EventHandle record_anchor() const;

  std::mutex mutex_;
  StreamHandle stream_ = make_stream_handle();
  EventHandle anchor_ = record_anchor();
  std::chrono::nanoseconds anchor_time_{0};
};

}  // namespace lamina::cuda
