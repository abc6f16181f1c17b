#pragma once

/// Sums over threads, in an order that never changes.
namespace lamina::ops::cuda {

constexpr int kWarpThreads = 32;
constexpr int kMostWarps = 32;
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

/// Over groups of `lanes` adjacent threads, a power of two up to a warp. All threads of the warp call it.
template <typename T>
__device__ T group_sum(T value, int lanes) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    if (distance < lanes) value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

/// Over a block of whole warps, the same in each thread. A block uses the space of `kMostWarps` once.
template <typename T>
__device__ T block_sum(T value, T* space) {
  const T warp = group_sum(value, kWarpThreads);
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;
  if (threadIdx.x % kWarpThreads == 0) space[threadIdx.x / kWarpThreads] = warp;
  __syncthreads();
  T sum = space[0];
  for (int i = 1; i < warps; ++i) sum += space[i];
  return sum;
}

}  // namespace lamina::ops::cuda
