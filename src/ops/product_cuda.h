#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/tensor_view.h"

namespace lamina::ops::cuda {

/// One matrix of each product of a batch: rows of contiguous elements. Strides count elements.
struct Matrix {
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t batch_stride = 0;
};

/// The matrix that a [rows, features] view is.
Matrix matrix_of(const ConstTensorView& view);

/// d[rows, columns] = alpha a b + beta d, for each of `batches`; a [rows, inner]. a and b are of one dtype, f32 or
/// bf16, d of the same or f32.
struct ProductShape {
  enum class B { inner_by_columns, columns_by_inner };

  Matrix a;
  Matrix b;
  B b_layout = B::columns_by_inner;  ///< the latter is the layout of weights, [out, in]
  Matrix d;
  std::int64_t batches = 1;
};

struct ProductOperands {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* d = nullptr;
  float alpha = 1;
  float beta = 0;
};

struct ProductPlan;

/// Matrix products by cuBLASLt: sums in f32; f32 operands are not rounded (no TF32).
///
/// The algorithm is the first that cuBLASLt's heuristic names for the shape, at most 32 MiB of workspace and the
/// alignment that the strides allow, up to 16 bytes. So it depends on no address, no timing and no earlier call:
/// weights in a ring and resident ones give the same bytes, in every process. Operands whose first element is aligned
/// worse than their strides (a slice of columns at an odd offset) take an algorithm for any alignment that needs no
/// workspace; they may not be at such places in one run and at better ones in another, which no arena or ring does.
class Product {
 public:
  /// On the device that is current. Throws not_implemented naming the shape where cuBLASLt has no algorithm.
  explicit Product(const ProductShape& shape);

  std::size_t workspace_bytes() const noexcept;

  /// `workspace` is 256-byte aligned.
  void run_async(const ProductOperands& operands, std::byte* workspace, cudaStream_t stream) const;

 private:
  ProductShape shape_;
  std::shared_ptr<const ProductPlan> plan_;
};

}  // namespace lamina::ops::cuda
