#include "ops/softmax_cuda.h"

#include <algorithm>
#include <cmath>

#include "ops/pack_cuda.cuh"
#include "ops/sum_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

constexpr int kMostThreads = 512;
constexpr int kPack = 4;

/// Of some scores: the largest, and the sum of exp(score - largest).
struct Partial {
  float largest = -INFINITY;
  float sum = 0;
};

__device__ void add(Partial& partial, float score) {
  if (score > partial.largest) {
    partial.sum = partial.sum * expf(partial.largest - score) + 1.0F;
    partial.largest = score;
  } else {
    partial.sum += expf(score - partial.largest);
  }
}

__device__ float sum_relative_to(const Partial& partial, float largest) {
  return partial.largest == largest ? partial.sum : partial.sum * expf(partial.largest - largest);
}

__device__ Partial merged(const Partial& a, const Partial& b) {
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, sum_relative_to(a, largest) + sum_relative_to(b, largest)};
}

/// Lanes [0, width) of the calling warp, in all of them.
__device__ Partial merged_in_warp(Partial partial, int width) {
  for (int mask = width / 2; mask > 0; mask /= 2) {
    const Partial other{__shfl_xor_sync(kWholeWarp, partial.largest, mask),
                        __shfl_xor_sync(kWholeWarp, partial.sum, mask)};
    partial = merged(partial, other);
  }
  return partial;
}

__device__ Partial merged_in_block(Partial partial) {
  __shared__ float largest[kMostWarps];
  __shared__ float sums[kMostWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;
  partial = merged_in_warp(partial, kWarpThreads);
  if (lane == 0) {
    largest[warp] = partial.largest;
    sums[warp] = partial.sum;
  }
  __syncthreads();
  return merged_in_warp({largest[lane % warps], sums[lane % warps]}, warps);
}

__device__ std::int64_t visible_keys(const SoftmaxShape& shape, std::int64_t query) {
  return shape.causal ? min(shape.first_query + query + 1, shape.keys) : shape.keys;
}

/// A block for each row.
template <typename T>
__global__ void softmax(const float* scores, T* probabilities, SoftmaxShape shape) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t visible = visible_keys(shape, row % shape.queries);
  const float* from = scores + row * shape.row_stride;
  T* to = probabilities + row * shape.row_stride;
  const std::int64_t first = std::int64_t{threadIdx.x} * kPack;
  const std::int64_t step = std::int64_t{blockDim.x} * kPack;

  Partial own;
  for (std::int64_t i = first; i < visible; i += step) {
    const Floats<kPack> pack = load<kPack>(from + i);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (i + j < visible) add(own, pack[j]);
  }
  const Partial all = merged_in_block(own);
  const float factor = 1.0F / all.sum;
  for (std::int64_t i = first; i < shape.row_stride; i += step) {
    Floats<kPack> pack = load<kPack>(from + i);
#pragma unroll
    for (int j = 0; j < kPack; ++j) pack[j] = i + j < visible ? expf(pack[j] - all.largest) * factor : 0.0F;
    store<kPack>(to + i, pack);
  }
}

}  // namespace

void softmax_async(const float* scores, std::byte* probabilities, DType dtype, const SoftmaxShape& shape,
                   cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(shape.heads * shape.queries);
  const int threads = std::max(kWarpThreads, power_of_two_from(shape.row_stride / kPack, kMostThreads));
  with_element(dtype, [&](auto element) {
    softmax<<<rows, threads, 0, stream>>>(scores, reinterpret_cast<decltype(element)*>(probabilities), shape);
  });
}

}  // namespace lamina::ops::cuda
