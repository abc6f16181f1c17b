#pragma once

#include <cuda_runtime.h>

#include <optional>

#include "tensor/tensor_view.h"

/// What products need beside cuBLASLt. All operands are f32 or bf16.
namespace lamina::ops::cuda {

/// y = x wᵀ (+ bias) for one row x [1, in]: w is read once, as it is. The order of the sums depends on nothing but
/// `in`.
void multiply_row_async(const ConstTensorView& x, const ConstTensorView& w, const std::optional<ConstTensorView>& bias,
                        const TensorView& y, cudaStream_t stream);

/// Writes `row` [features] into every row of y [rows, features].
void fill_rows_async(const ConstTensorView& row, const TensorView& y, cudaStream_t stream);

/// Writes the elements of `from` as `to`'s dtype. Both are contiguous and of equal element count.
void convert_async(const ConstTensorView& from, const TensorView& to, cudaStream_t stream);

}  // namespace lamina::ops::cuda
