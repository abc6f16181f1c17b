#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace lamina::ops::cuda {

/// Scores [heads, queries, row_stride], of which the first `keys` of each row count; row_stride is a multiple of 8.
struct SoftmaxShape {
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t row_stride = 0;
  bool causal = false;
  std::int64_t first_query = 0;  ///< causal: query i of a head sees the keys up to first_query + i
};

/// Softmax of each row, computed in f32 and written as `dtype` (f32 or bf16) in the same layout; what a query does not
/// see, and the rest of the row, becomes 0. `probabilities` may be `scores` where `dtype` is f32.
void softmax_async(const float* scores, std::byte* probabilities, DType dtype, const SoftmaxShape& shape,
                   cudaStream_t stream);

}  // namespace lamina::ops::cuda
