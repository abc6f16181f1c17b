#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lamina::probe {

struct DestroyDnnHandle {
  void operator()(cudnnHandle_t handle) const noexcept;
};
using DnnHandle = std::unique_ptr<cudnnContext, DestroyDnnHandle>;

DnnHandle create_dnn_handle(cudaStream_t stream);

/// softmax(q k^T / sqrt(128)) v over all tokens, bf16, batch 1, no mask. Heads of 128 lie side by side within a token.
struct AttentionShape {
  std::int64_t tokens = 0;
  std::int64_t heads = 32;
  std::int64_t qkv_stride = 0;  ///< elements from one token to the next in q, k and v
  std::int64_t out_stride = 0;  ///< the same in the output

  double flop() const {
    return 4.0 * 128 * static_cast<double>(tokens) * static_cast<double>(tokens) * static_cast<double>(heads);
  }
};

constexpr std::int64_t kHeadDim = 128;

struct AttentionOperands {
  const std::byte* q = nullptr;
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  std::byte* out = nullptr;
};

/// cuDNN's single forward attention operation, through its backend API, with the first plan that its heuristic gives
/// and that can be built.
class Attention {
 public:
  Attention(cudnnHandle_t handle, const AttentionShape& shape);

  /// On the handle's stream. `workspace` holds `workspace_bytes()`.
  void run_async(const AttentionOperands& operands, std::byte* workspace) const;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// cuDNN's number of the engine that runs the plan.
  std::int64_t engine() const { return engine_; }

 private:
  struct DestroyDescriptor {
    void operator()(void* descriptor) const noexcept;
  };
  using Descriptor = std::unique_ptr<void, DestroyDescriptor>;

  static Descriptor create(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t keep(Descriptor descriptor);
  cudnnBackendDescriptor_t tensor(std::int64_t id, std::int64_t token_stride);
  cudnnBackendDescriptor_t scale();
  cudnnBackendDescriptor_t graph();
  void choose_plan(cudnnBackendDescriptor_t graph);
  static std::int64_t engine_of(cudnnBackendDescriptor_t config);

  cudnnHandle_t handle_;
  AttentionShape shape_;
  std::vector<Descriptor> kept_;
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
  std::int64_t engine_ = 0;
};

}  // namespace lamina::probe
