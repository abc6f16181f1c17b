#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_probe/attention.h"
#include "gpu_probe/gpu.h"
#include "gpu_probe/linear.h"

namespace lamina::probe {

constexpr std::int64_t kWidth = 4096;  // of FLUX.2 klein 9B
constexpr std::int64_t kTextTokens = 512;
constexpr std::size_t kDoubleBlocks = 8;
constexpr std::size_t kSingleBlocks = 24;
constexpr std::size_t kUnits = kDoubleBlocks + kSingleBlocks;
constexpr std::size_t kDoubleBytes = 872'416'256;
constexpr std::size_t kSingleBytes = 436'208'128;

constexpr std::size_t unit_bytes(std::size_t unit) {
  return unit < kDoubleBlocks ? kDoubleBytes : kSingleBytes;
}
constexpr std::size_t kStreamedBytes = kDoubleBlocks * kDoubleBytes + kSingleBlocks * kSingleBytes;

constexpr std::int64_t image_tokens(std::int64_t pixels) {
  return (pixels / 16) * (pixels / 16);
}

/// One matrix product of a block, and where its weights lie in the block's image.
struct BlockLinear {
  std::string name;
  LinearShape shape;
  std::size_t weight_offset = 0;
};

std::vector<BlockLinear> double_block_linears(std::int64_t pixels);
std::vector<BlockLinear> single_block_linears(std::int64_t pixels);

/// The matrix products, and on request the attention, of klein 9B's blocks at one picture size. Every product reads the
/// same random activations, so values stay in range without the norms between them.
class KleinCompute {
 public:
  KleinCompute(cublasLtHandle_t blas, cudnnHandle_t dnn, std::int64_t pixels, bool with_attention, cudaStream_t stream);

  void run_unit_async(std::size_t unit, const std::byte* weights) const;
  /// Adds a hash of the unit's last output to `*sum` (device memory).
  void hash_output_async(std::size_t unit, std::uint64_t* sum) const;

 private:
  struct Step {
    Linear linear;
    std::size_t weight_offset;
  };
  static std::vector<Step> plan(cublasLtHandle_t blas, const std::vector<BlockLinear>& linears);

  cudaStream_t stream_;
  std::vector<Step> double_steps_;
  std::vector<Step> single_steps_;
  std::unique_ptr<Attention> attention_;
  DeviceMemory x_;
  DeviceMemory y_;
  DeviceMemory attention_in_;
  DeviceMemory attention_out_;
  DeviceMemory workspace_;
};

}  // namespace lamina::probe
