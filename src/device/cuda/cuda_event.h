#pragma once

#include <chrono>
#include <string>

#include "device/cuda/gpu.h"
#include "device/cuda/handles.h"
#include "device/event.h"

namespace lamina::cuda {

/// CUDA's events already do what Event promises: a wait means the record before it, whatever is recorded later.
class CudaEvent final : public Event {
 public:
  CudaEvent(Gpu& gpu, std::string name);
  ~CudaEvent() override;

  void record(cudaStream_t stream);
  /// The stream waits for the point recorded last.
  void hold_up(cudaStream_t stream) const;
  bool is_recorded() const noexcept { return is_recorded_; }

  std::chrono::nanoseconds time() const override;

 private:
  bool do_synchronize() override;

  Gpu& gpu_;
  EventHandle handle_;
  bool is_recorded_ = false;
};

}  // namespace lamina::cuda
