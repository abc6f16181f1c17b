#pragma once

/// What several kernels compute of single elements; equal expressions, so that fused operations give equal bytes.
namespace lamina::ops::cuda {

/// Exact to a few units in the last place, far from zero too: the division is CUDA's quick one.
__device__ inline float silu_of(float x) {
  return __fdividef(x, 1.0F + expf(-x));
}

__device__ inline float gated_sum(float x, float gate, float y) {
  return fmaf(gate, x, y);
}

}  // namespace lamina::ops::cuda
