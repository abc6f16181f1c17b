#include "device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "device/cuda/availability.h"
#include "device/cuda/cuda_event.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/gpu.h"
#include "device/cuda/host_pages.h"

namespace lamina {
namespace {

using cuda::describe;
using cuda::log_failure;

/// The explicit limit, or what is free now where that is less.
MemoryLimit memory_limit(const CudaDeviceOptions& options) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cuda::make_current(options.index);
  cuda::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  const std::size_t usable = free_bytes - std::min(free_bytes, kCudaLibraryRoom);
  if (options.memory_limit_bytes && *options.memory_limit_bytes <= usable)
    return {*options.memory_limit_bytes, {}, std::nullopt};
  return {usable, "the GPU's free memory", std::nullopt};
}

class CudaDevice final : public Device {
 public:
  CudaDevice(CudaDeviceOptions options, const MemoryLimit& limit)
      : Device(DeviceKind::cuda, fmt::format("cuda:{}", options.index), limit.limit_bytes,
               std::move(options.host_memory), limit.source),
        gpu_(options.index, std::move(options.delay)) {}

  std::unique_ptr<Stream> create_stream(std::string name) override {
    return std::make_unique<cuda::CudaStream>(*this, gpu_, std::move(name));
  }
  std::unique_ptr<Event> create_event(std::string name) override {
    return std::make_unique<cuda::CudaEvent>(gpu_, std::move(name));
  }

 private:
  std::byte* do_allocate(std::size_t size_bytes) override;
  void do_free(std::byte* data, std::size_t size_bytes) noexcept override;
  void do_register(std::byte* data, std::size_t size_bytes) override;
  bool do_unregister(std::byte* data, std::size_t size_bytes) noexcept override;

  /// Waits for all work of the device.
  void drain() const noexcept;

  cuda::Gpu gpu_;
};

std::byte* CudaDevice::do_allocate(std::size_t size_bytes) {
  gpu_.make_current();
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, size_bytes); status != cudaSuccess) {
    const std::string reason = describe(status);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    cuda::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
    fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_device_memory : ErrorCode::device,
         "{} of device memory asked for, {} has {} free of {}: {}", format_size(size_bytes), name(),
         format_size(free_bytes), format_size(total_bytes), reason);
  }
  return static_cast<std::byte*>(data);
}

void CudaDevice::do_free(std::byte* data, std::size_t) noexcept {
  drain();
  log_failure(cudaFree(data), "freeing device memory");
}

void CudaDevice::do_register(std::byte* data, std::size_t size_bytes) {
  gpu_.make_current();
  cuda::make_pages_present(data, size_bytes);
  const cudaError_t status = cudaHostRegister(data, size_bytes, cudaHostRegisterPortable);
  if (status == cudaSuccess) return;
  fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_host_memory : ErrorCode::device,
       "{} of host memory could not be page-locked for {}: {}", format_size(size_bytes), name(), describe(status));
}

bool CudaDevice::do_unregister(std::byte* data, std::size_t) noexcept {
  drain();
  return log_failure(cudaHostUnregister(data), "unlocking host memory, which therefore stays");
}

void CudaDevice::drain() const noexcept {
  if (gpu_.try_make_current()) log_failure(cudaDeviceSynchronize(), "waiting for pending work");
}

}  // namespace

std::unique_ptr<Device> create_cuda_device(CudaDeviceOptions options) {
  if (const std::string reason = cuda::why_unusable(options.index); !reason.empty())
    fail(ErrorCode::unavailable, "cuda:{}: {}", options.index, reason);
  const MemoryLimit limit = memory_limit(options);
  return std::make_unique<CudaDevice>(std::move(options), limit);
}

}  // namespace lamina
