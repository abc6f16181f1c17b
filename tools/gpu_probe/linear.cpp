#include "gpu_probe/linear.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "gpu_probe/check.h"

namespace lamina::probe {
namespace {

constexpr int kMostChoices = 8;

template <typename Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)));
}

template <typename Value = std::uint32_t>
Value get(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
  Value value{};
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof(value), &written));
  return value;
}

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const noexcept { cublasLtMatmulPreferenceDestroy(preference); }
};
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

Preference make_preference(std::uint32_t alignment_bytes) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw));
  Preference preference(raw);
  set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kBlasWorkspaceBytes});
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(raw, name, alignment_bytes);
  return preference;
}

}  // namespace

void DestroyBlasHandle::operator()(cublasLtHandle_t handle) const noexcept {
  if (cublasLtDestroy(handle) != CUBLAS_STATUS_SUCCESS) std::fprintf(stderr, "cublasLtDestroy failed\n");
}

BlasHandle create_blas_handle() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle));
  return BlasHandle(handle);
}

/// cuBLASLt is column-major, so it is given y^T[out, tokens] = w x^T: A is w, to be transposed, B is x^T.
struct Linear::Descriptors {
  explicit Descriptors(const LinearShape& shape) {
    check(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
    const auto out = static_cast<std::uint64_t>(shape.out);
    const auto in = static_cast<std::uint64_t>(shape.in);
    const auto tokens = static_cast<std::uint64_t>(shape.tokens);
    check(cublasLtMatrixLayoutCreate(&w, CUDA_R_16BF, in, out, shape.in));
    check(cublasLtMatrixLayoutCreate(&x, CUDA_R_16BF, in, tokens, shape.in));
    check(cublasLtMatrixLayoutCreate(&y, CUDA_R_16BF, out, tokens, shape.out));
  }
  ~Descriptors() {
    cublasLtMatrixLayoutDestroy(y);
    cublasLtMatrixLayoutDestroy(x);
    cublasLtMatrixLayoutDestroy(w);
    cublasLtMatmulDescDestroy(matmul);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t w = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;
};

Linear::Linear(cublasLtHandle_t handle, const LinearShape& shape, std::uint32_t alignment_bytes, int choice)
    : handle_(handle), shape_(shape), descriptors_(std::make_shared<Descriptors>(shape)) {
  const auto results = ask(alignment_bytes, choice + 1);
  expects(static_cast<int>(results.size()) > choice, "no algorithm {} for [{}, {}] with {} tokens", choice, shape.out,
          shape.in, shape.tokens);
  const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(choice)];
  check(result.state);
  algorithm_ = result.algo;
  workspace_bytes_ = result.workspaceSize;
}

int Linear::choices(cublasLtHandle_t handle, const LinearShape& shape) {
  return static_cast<int>(Linear(handle, shape).ask(256, kMostChoices).size());
}

std::vector<cublasLtMatmulHeuristicResult_t> Linear::ask(std::uint32_t alignment_bytes, int count) const {
  const Preference preference = make_preference(alignment_bytes);
  const Descriptors& of = *descriptors_;
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_, of.matmul, of.w, of.x, of.y, of.y, preference.get(), count,
                                       results.data(), &found));
  results.resize(static_cast<std::size_t>(found));
  return results;
}

void Linear::run_async(const LinearOperands& operands, std::byte* workspace, cudaStream_t stream) const {
  const float one = 1;
  const float zero = 0;
  const Descriptors& of = *descriptors_;
  check(cublasLtMatmul(handle_, of.matmul, &one, operands.w, of.w, operands.x, of.x, &zero, operands.y, of.y,
                       operands.y, of.y, &algorithm_, workspace, kBlasWorkspaceBytes, stream));
}

std::string Linear::algorithm() const {
  return fmt::format(
      "algo {} tile {} stages {} split-k {} reduction {} swizzle {} custom {} inner {} cluster {} workspace {}",
      get<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_ID), get(algorithm_, CUBLASLT_ALGO_CONFIG_TILE_ID),
      get(algorithm_, CUBLASLT_ALGO_CONFIG_STAGES_ID), get<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
      get(algorithm_, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), get(algorithm_, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
      get(algorithm_, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
      get<std::uint16_t>(algorithm_, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
      get<std::uint16_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), workspace_bytes_);
}

std::string Linear::short_algorithm() const {
  return fmt::format("{} {} {} {}", get(algorithm_, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     get(algorithm_, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                     get<std::uint16_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                     get<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

bool Linear::same_algorithm(const Linear& other) const {
  return std::memcmp(&algorithm_, &other.algorithm_, sizeof(algorithm_)) == 0;
}

}  // namespace lamina::probe
