#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/conv.h"
#include "tensor/tensor_view.h"

/// What convolutions need beside cuDNN and cuBLASLt. Operands are contiguous, f32 or bf16.
namespace lamina::ops::cuda {

/// Writes w [out, in, kh, kw] as [out, kh, kw, in] of `to`'s dtype: rows of to [out, row], zeros behind the weights.
void channels_last_async(const ConstTensorView& w, const TensorView& to, cudaStream_t stream);

/// A convolution's window at each pixel of its result, in the order of the weights above.
struct Windows {
  ConstTensorView x;  ///< [height, width, in]
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t result_width;
  Conv2dOptions options;
};

/// Writes the windows of pixels [first, first + count) as rows of to [count, row], of x's dtype; zeros where they reach
/// over the image's edge, and behind them.
void gather_windows_async(const Windows& windows, std::int64_t first, const TensorView& to, cudaStream_t stream);

/// y[pixel, channel] += bias[channel], y [height, width, channels].
void add_bias_async(const ConstTensorView& bias, const TensorView& y, cudaStream_t stream);

}  // namespace lamina::ops::cuda
