#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "device/cuda/cuda_status.h"

/// Owners of what the CUDA runtime hands out. They are made and destroyed with their device current.
namespace lamina::cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const noexcept { log_failure(cudaStreamDestroy(stream), "destroying a stream"); }
};
using StreamHandle = std::unique_ptr<CUstream_st, DestroyStream>;

struct DestroyEvent {
  void operator()(cudaEvent_t event) const noexcept { log_failure(cudaEventDestroy(event), "destroying an event"); }
};
using EventHandle = std::unique_ptr<CUevent_st, DestroyEvent>;

/// Not ordered with the legacy default stream.
inline StreamHandle make_stream_handle() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return StreamHandle(stream);
}

/// With time.
inline EventHandle make_event_handle() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "creating an event");
  return EventHandle(event);
}

}  // namespace lamina::cuda
