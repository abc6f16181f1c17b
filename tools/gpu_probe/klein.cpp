#include "gpu_probe/klein.h"

#include <algorithm>

#include "gpu_probe/kernels.h"

namespace lamina::probe {
namespace {

void add(std::vector<BlockLinear>& linears, std::string name, const LinearShape& shape) {
  const std::size_t offset = linears.empty() ? 0 : linears.back().weight_offset + linears.back().shape.w_bytes();
  linears.push_back({std::move(name), shape, offset});
}

}  // namespace

std::vector<BlockLinear> double_block_linears(std::int64_t pixels) {
  std::vector<BlockLinear> linears;
  for (const auto& [stream, tokens] : {std::pair{"image", image_tokens(pixels)}, std::pair{"text", kTextTokens}}) {
    const std::string prefix = std::string("double ") + stream;
    add(linears, prefix + " qkv", {tokens, 3 * kWidth, kWidth});
    add(linears, prefix + " out", {tokens, kWidth, kWidth});
    add(linears, prefix + " ff_in", {tokens, 6 * kWidth, kWidth});
    add(linears, prefix + " ff_out", {tokens, kWidth, 3 * kWidth});
  }
  return linears;
}

std::vector<BlockLinear> single_block_linears(std::int64_t pixels) {
  const std::int64_t tokens = image_tokens(pixels) + kTextTokens;
  std::vector<BlockLinear> linears;
  add(linears, "single qkv_mlp", {tokens, 9 * kWidth, kWidth});
  add(linears, "single out", {tokens, kWidth, 4 * kWidth});
  return linears;
}

KleinCompute::KleinCompute(cublasLtHandle_t blas, cudnnHandle_t dnn, std::int64_t pixels, bool with_attention,
                           cudaStream_t stream)
    : stream_(stream),
      double_steps_(plan(blas, double_block_linears(pixels))),
      single_steps_(plan(blas, single_block_linears(pixels))) {
  const std::int64_t tokens = image_tokens(pixels) + kTextTokens;
  const auto row_bytes = static_cast<std::size_t>(tokens * kWidth) * 2;
  std::size_t workspace_bytes = kBlasWorkspaceBytes;
  x_ = allocate(4 * row_bytes);
  y_ = allocate(9 * row_bytes);
  check(fill_random_async(x_.get(), 4 * row_bytes, 1.0F, 1, stream));
  if (with_attention) {
    attention_ = std::make_unique<Attention>(
        dnn, AttentionShape{.tokens = tokens, .qkv_stride = 3 * kWidth, .out_stride = kWidth});
    workspace_bytes = std::max(workspace_bytes, attention_->workspace_bytes());
    attention_in_ = allocate(3 * row_bytes);
    attention_out_ = allocate(row_bytes);
    check(fill_random_async(attention_in_.get(), 3 * row_bytes, 1.0F, 2, stream));
  }
  workspace_ = allocate(workspace_bytes);
}

std::vector<KleinCompute::Step> KleinCompute::plan(cublasLtHandle_t blas, const std::vector<BlockLinear>& linears) {
  std::vector<Step> steps;
  for (const BlockLinear& linear : linears) steps.push_back({Linear(blas, linear.shape), linear.weight_offset});
  return steps;
}

void KleinCompute::run_unit_async(std::size_t unit, const std::byte* weights) const {
  if (attention_) {
    const std::size_t row_bytes = kWidth * 2;
    const std::byte* qkv = attention_in_.get();
    attention_->run_async({qkv, qkv + row_bytes, qkv + 2 * row_bytes, attention_out_.get()}, workspace_.get());
  }
  for (const Step& step : unit < kDoubleBlocks ? double_steps_ : single_steps_)
    step.linear.run_async({x_.get(), weights + step.weight_offset, y_.get()}, workspace_.get(), stream_);
}

void KleinCompute::hash_output_async(std::size_t unit, std::uint64_t* sum) const {
  const std::vector<Step>& steps = unit < kDoubleBlocks ? double_steps_ : single_steps_;
  check(add_hash_async(y_.get(), steps.back().linear.shape().y_bytes(), sum, stream_));
}

}  // namespace lamina::probe
