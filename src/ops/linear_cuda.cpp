#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/linear_kernels_cuda.h"
#include "ops/product_cuda.h"
#include "ops/scratch.h"

namespace lamina::ops::cuda {

namespace {

/// cuBLASLt multiplies two matrices of one dtype, so weights of the other one are converted, as many output rows at a
/// time as fit.
constexpr std::size_t kConvertedBytes = 32 * kMiB;
/// Chunks of outputs start on whole vectors of y's rows.
constexpr std::size_t kOutputStep = 64;

std::int64_t outputs_per_chunk(const ConstTensorView& x, const ConstTensorView& w) {
  if (w.dtype() == x.dtype()) return w.size(0);
  const std::size_t row_bytes = static_cast<std::size_t>(w.size(1)) * size_of(x.dtype());
  const std::int64_t even = chunk_length(w.size(0), static_cast<std::int64_t>(kConvertedBytes / row_bytes));
  return std::min(w.size(0), static_cast<std::int64_t>(align_up(static_cast<std::size_t>(even), kOutputStep)));
}

Product product_of(const ConstTensorView& x, const TensorView& y, std::int64_t outputs) {
  const std::int64_t in = x.size(1);
  return Product(
      {.a = matrix_of(x), .b = {x.dtype(), outputs, in, in}, .d = {y.dtype(), y.size(0), outputs, y.stride(0)}});
}

std::vector<ConstTensorView> read_operands(const ConstTensorView& x, const ConstTensorView& w,
                                           const std::optional<ConstTensorView>& bias) {
  std::vector<ConstTensorView> reads{x, w};
  if (bias) reads.push_back(*bias);
  return reads;
}

void multiply_row(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
                  const std::optional<ConstTensorView>& bias) {
  cuda_launch(context, "linear", read_operands(x, w, bias), {y}, {},
              [&](cudaStream_t stream) { multiply_row_async(x, w, bias, y, stream); });
}

/// The bias is written to y first and the product added to it, which rounds once and suits every dtype and alignment;
/// cuBLASLt's own addition of a bias does not.
void multiply_rows(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
                   const std::optional<ConstTensorView>& bias) {
  const std::int64_t outputs = w.size(0);
  const std::int64_t step = outputs_per_chunk(x, w);
  const Product full = product_of(x, y, step);
  const Product last = outputs % step == 0 ? full : product_of(x, y, outputs % step);
  const bool converts = w.dtype() != x.dtype();
  const TensorView chunk(nullptr, x.dtype(), {step, w.size(1)});

  Scratch scratch;  // which starts on 256 bytes, as the workspace must
  const std::size_t workspace = scratch.add(std::max(full.workspace_bytes(), last.workspace_bytes()));
  const std::size_t converted = scratch.add(converts ? chunk.span_bytes() : 0);
  scratch.obtain(context);

  cuda_launch(context, "linear", read_operands(x, w, bias), {y}, scratch.range(), [&](cudaStream_t stream) {
    if (bias) fill_rows_async(*bias, y, stream);
    for (std::int64_t begin = 0; begin < outputs; begin += step) {
      const std::int64_t end = std::min(begin + step, outputs);
      const ConstTensorView stored = w.slice(0, begin, end);
      const TensorView space(scratch.at(converted), x.dtype(), stored.shape());
      if (converts) convert_async(stored, space, stream);
      (end - begin == step ? full : last)
          .run_async({.a = x.data(),
                      .b = converts ? space.data() : stored.data(),
                      .d = y.slice(1, begin, end).data(),
                      .beta = bias ? 1.0F : 0.0F},
                     scratch.at(workspace), stream);
    }
  });
}

}  // namespace

void linear(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
            const std::optional<ConstTensorView>& bias) {
  lamina::cuda::make_current(context.stream());  // for which plans are made
  if (x.size(0) == 1) return multiply_row(context, x, w, y, bias);
  multiply_rows(context, x, w, y, bias);
}

}  // namespace lamina::ops::cuda
