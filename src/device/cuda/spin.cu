#include "device/cuda/spin.h"

#include <cstdint>

#include "device/cuda/cuda_status.h"

namespace lamina::cuda {
namespace {

constexpr unsigned kNapNs = 200;

__device__ std::uint64_t now_ns() {
  std::uint64_t time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void spin(std::uint64_t duration_ns) {
  const std::uint64_t begin = now_ns();
  while (now_ns() - begin < duration_ns) __nanosleep(kNapNs);
}

}  // namespace

void spin_async(cudaStream_t stream, std::chrono::nanoseconds duration) {
  spin<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(duration.count()));
  check(cudaGetLastError(), "launching a delay");
}

cudaError_t find_device_code() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, spin);
}

}  // namespace lamina::cuda
