#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lamina::probe {

struct DestroyBlasHandle {
  void operator()(cublasLtHandle_t handle) const noexcept;
};
using BlasHandle = std::unique_ptr<cublasLtContext, DestroyBlasHandle>;

BlasHandle create_blas_handle();

/// y[tokens, out] = x[tokens, in] w[out, in]^T, all bf16 and row-major, sums in f32.
struct LinearShape {
  std::int64_t tokens = 0;
  std::int64_t out = 0;
  std::int64_t in = 0;

  double flop() const { return 2.0 * static_cast<double>(tokens) * static_cast<double>(out * in); }
  std::size_t x_bytes() const { return static_cast<std::size_t>(tokens * in) * 2; }
  std::size_t w_bytes() const { return static_cast<std::size_t>(out * in) * 2; }
  std::size_t y_bytes() const { return static_cast<std::size_t>(tokens * out) * 2; }
};

struct LinearOperands {
  const std::byte* x = nullptr;
  const std::byte* w = nullptr;
  std::byte* y = nullptr;
};

constexpr std::size_t kBlasWorkspaceBytes = std::size_t{32} << 20;

/// One shape with the algorithm that cuBLASLt's heuristic puts at place `choice` for a workspace of 32 MiB.
class Linear {
 public:
  Linear(cublasLtHandle_t handle, const LinearShape& shape, std::uint32_t alignment_bytes = 256, int choice = 0);

  /// How many algorithms the heuristic has for a shape, of at most eight.
  static int choices(cublasLtHandle_t handle, const LinearShape& shape);

  /// `workspace` holds kBlasWorkspaceBytes.
  void run_async(const LinearOperands& operands, std::byte* workspace, cudaStream_t stream) const;

  const LinearShape& shape() const { return shape_; }
  /// "algo 66 tile 128x256 ..." by cuBLASLt's own numbers.
  std::string algorithm() const;
  /// Tile, custom option, cluster and split-k alone.
  std::string short_algorithm() const;
  bool same_algorithm(const Linear& other) const;

 private:
  struct Descriptors;

  std::vector<cublasLtMatmulHeuristicResult_t> ask(std::uint32_t alignment_bytes, int count) const;

  cublasLtHandle_t handle_;
  LinearShape shape_;
  std::shared_ptr<const Descriptors> descriptors_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace lamina::probe
