#include "ops/product_cuda.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/bytes.h"
#include "ops/per_device_cuda.h"

namespace lamina::ops::cuda {

namespace {

using lamina::cuda::check;

constexpr std::uint64_t kMostWorkspaceBytes = 32 * kMiB;
/// As far as vector loads and TMA ask for. The choice is the same for more.
constexpr std::int64_t kAlignment = 16;

/// cuBLASLt's context of one device. Thread safe.
struct BlasHandle {
  BlasHandle() { check(cublasLtCreate(&value)); }
  cublasLtHandle_t value = nullptr;
};

template <auto destroy>
struct Destroy {
  template <typename Handle>
  void operator()(Handle handle) const noexcept {
    destroy(handle);  // frees host memory and cannot fail for what was created
  }
};
template <typename Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;

using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t cuda_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// cuBLASLt is column-major: to it, rows are columns.
Layout describe(const Matrix& matrix, std::int64_t batches) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, cuda_type(matrix.dtype), static_cast<std::uint64_t>(matrix.columns),
                                   static_cast<std::uint64_t>(matrix.rows),
                                   std::max(matrix.row_stride, matrix.columns)));
  Layout layout(raw);
  const auto count = static_cast<std::int32_t>(batches);
  check(cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
  check(cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
                                         sizeof(matrix.batch_stride)));
  return layout;
}

Operation describe_operation(ProductShape::B layout) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Operation operation(raw);
  const cublasOperation_t first = layout == ProductShape::B::columns_by_inner ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(raw, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)));
  return operation;
}

/// The largest power of two, up to kAlignment, on which every row of every batch starts if the first one does.
std::int64_t alignment_bytes(const Matrix& matrix, std::int64_t batches) {
  std::int64_t strides = kAlignment;
  const auto size = static_cast<std::int64_t>(size_of(matrix.dtype));
  if (matrix.rows > 1) strides |= matrix.row_stride * size;
  if (batches > 1) strides |= matrix.batch_stride * size;
  return strides & -strides;
}

struct Alignments {
  std::int64_t a;
  std::int64_t b;
  std::int64_t d;
};

template <typename Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t name, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof(value)));
}

Preference make_preference(std::uint64_t workspace_bytes, const Alignments& alignments) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw));
  Preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Where the inner extent is split, parts are added in f32 and in one order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // cuBLASLt's A is our b and its B our a, since the product is transposed as well.
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignments.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignments.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignments.d));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignments.d));
  return preference;
}

void add_to_key(std::vector<std::int64_t>& key, const Matrix& matrix) {
  key.insert(key.end(), {static_cast<std::int64_t>(matrix.dtype), matrix.rows, matrix.columns, matrix.row_stride,
                         matrix.batch_stride});
}

bool starts_on(const std::byte* data, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0;
}

}  // namespace

struct ProductPlan {
  ProductPlan(const ProductShape& shape, const Alignments& promised, std::uint64_t most_workspace_bytes)
      : alignments(promised),
        operation(describe_operation(shape.b_layout)),
        a(describe(shape.a, shape.batches)),
        b(describe(shape.b, shape.batches)),
        d(describe(shape.d, shape.batches)) {
    const Preference preference = make_preference(most_workspace_bytes, promised);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(of_current_device<BlasHandle>().value, operation.get(), b.get(), a.get(),
                                       d.get(), d.get(), preference.get(), 1, &result, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
    if (found == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
      fail(ErrorCode::not_implemented,
           "cuBLASLt has no algorithm for [{}, {}] by {} columns, rows {}, {} and {} elements apart, {} to {}",
           shape.a.rows, shape.a.columns, shape.d.columns, shape.a.row_stride, shape.b.row_stride, shape.d.row_stride,
           to_string(shape.a.dtype), to_string(shape.d.dtype));
    }
    algorithm = result.algo;
    workspace_bytes = result.workspaceSize;
  }

  bool fits(const ProductOperands& operands) const {
    return starts_on(operands.a, alignments.a) && starts_on(operands.b, alignments.b) &&
           starts_on(operands.d, alignments.d);
  }

  Alignments alignments;
  Operation operation;
  Layout a;
  Layout b;
  Layout d;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

namespace {

std::shared_ptr<const ProductPlan> find_plan(const ProductShape& shape, const Alignments& alignments,
                                             std::uint64_t most_workspace_bytes) {
  std::vector<std::int64_t> key{
      static_cast<std::int64_t>(shape.b_layout),      shape.batches, alignments.a, alignments.b, alignments.d,
      static_cast<std::int64_t>(most_workspace_bytes)};
  for (const Matrix* matrix : {&shape.a, &shape.b, &shape.d}) add_to_key(key, *matrix);
  return PlanCache<ProductPlan>::get(
      key, [&] { return std::make_shared<const ProductPlan>(shape, alignments, most_workspace_bytes); });
}

std::shared_ptr<const ProductPlan> plan_by_strides(const ProductShape& shape) {
  return find_plan(shape,
                   {alignment_bytes(shape.a, shape.batches), alignment_bytes(shape.b, shape.batches),
                    alignment_bytes(shape.d, shape.batches)},
                   kMostWorkspaceBytes);
}

std::shared_ptr<const ProductPlan> plan_for_any_address(const ProductShape& shape) {
  const auto element = [](const Matrix& matrix) { return static_cast<std::int64_t>(size_of(matrix.dtype)); };
  return find_plan(shape, {element(shape.a), element(shape.b), element(shape.d)}, 0);
}

}  // namespace

Matrix matrix_of(const ConstTensorView& view) {
  return {view.dtype(), view.size(0), view.size(1), view.stride(0)};
}

Product::Product(const ProductShape& shape) : shape_(shape), plan_(plan_by_strides(shape)) {}

std::size_t Product::workspace_bytes() const noexcept {
  return plan_->workspace_bytes;
}

void Product::run_async(const ProductOperands& operands, std::byte* workspace, cudaStream_t stream) const {
  const auto plan = plan_->fits(operands) ? plan_ : plan_for_any_address(shape_);
  check(cublasLtMatmul(of_current_device<BlasHandle>().value, plan->operation.get(), &operands.alpha, operands.b,
                       plan->b.get(), operands.a, plan->a.get(), &operands.beta, operands.d, plan->d.get(), operands.d,
                       plan->d.get(), &plan->algorithm, workspace, plan->workspace_bytes, stream));
}

}  // namespace lamina::ops::cuda
