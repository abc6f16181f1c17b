#include "device/cuda/cuda_event.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace lamina::cuda {

CudaEvent::CudaEvent(Gpu& gpu, std::string name) : Event(std::move(name)), gpu_(gpu) {
  gpu_.make_current();
  handle_ = make_event_handle();
}

CudaEvent::~CudaEvent() {
  gpu_.try_make_current();
}

void CudaEvent::record(cudaStream_t stream) {
  check(cudaEventRecord(handle_.get(), stream), "recording an event");
  is_recorded_ = true;
}

void CudaEvent::hold_up(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, handle_.get(), 0), "waiting for an event");
}

std::chrono::nanoseconds CudaEvent::time() const {
  expects(is_recorded_, "the time of event '{}', which was not recorded", name());
  gpu_.make_current();
  const cudaError_t status = cudaEventQuery(handle_.get());
  expects(status != cudaErrorNotReady, "the time of event '{}', which was not reached yet", name());
  check(status, "asking for an event");
  return gpu_.clock().time_of(handle_.get());
}

bool CudaEvent::do_synchronize() {
  gpu_.make_current();
  if (const cudaError_t status = cudaEventSynchronize(handle_.get()); status != cudaSuccess)
    check(status, fmt::format("waiting for event '{}'", name()));
  return true;
}

}  // namespace lamina::cuda
