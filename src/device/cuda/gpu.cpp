#include "device/cuda/gpu.h"

#include <fmt/format.h>

#include <utility>

#include "device/cuda/cuda_status.h"
#include "device/cuda/spin.h"

namespace lamina::cuda {
namespace {

cudaError_t set_current(int index) noexcept {
  // A fresh thread reads as being on device 0, but has no context yet, which the libraries may miss.
  thread_local bool has_context = false;
  int current = -1;
  if (has_context && cudaGetDevice(&current) == cudaSuccess && current == index) return cudaSuccess;
  const cudaError_t status = cudaSetDevice(index);
  has_context = status == cudaSuccess;
  return status;
}

}  // namespace

void make_current(int index) {
  if (const cudaError_t status = set_current(index); status != cudaSuccess)
    check(status, fmt::format("making cuda:{} current", index));
}

Gpu::Gpu(int index, Delay delay) : index_(index), delay_(std::move(delay)) {
  make_current();
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index_), "counting multiprocessors");
  clock_ = std::make_unique<DeviceClock>();
}

Gpu::~Gpu() {
  try_make_current();
}

bool Gpu::try_make_current() const noexcept {
  return log_failure(set_current(index_), "making the device current");
}

void Gpu::delay(cudaStream_t stream, std::string_view stream_name, std::string_view work) const {
  if (!delay_) return;
  if (const auto duration = delay_(stream_name, work); duration.count() > 0) spin_async(stream, duration);
}

}  // namespace lamina::cuda
