#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "ops/conv_cuda.h"
#include "ops/conv_kernels_cuda.h"
#include "ops/cuda_launch.h"
#include "ops/linear_kernels_cuda.h"
#include "ops/product_cuda.h"
#include "ops/scratch.h"

namespace lamina::ops::cuda {

namespace {

constexpr std::size_t kWindowBytes = 128 * kMiB;
/// Rows of windows and weights start on whole vectors.
constexpr std::size_t kRowElements = 8;

class ConvProducts {
 public:
  explicit ConvProducts(const ConvOperands& operands)
      : operands_(operands),
        takes_pixels_(is_pointwise(operands)),
        row_(row_elements(operands, takes_pixels_)),
        pixels_(operands.y.size(0) * operands.y.size(1)),
        step_(takes_pixels_ ? pixels_ : chunk_length(pixels_, static_cast<std::int64_t>(kWindowBytes / row_bytes()))),
        full_(product_of(step_)),
        last_(pixels_ % step_ == 0 ? full_ : product_of(pixels_ % step_)) {}

  void launch(OpContext& context);

 private:
  static std::int64_t row_elements(const ConvOperands& operands, bool takes_pixels) {
    const auto elements = static_cast<std::size_t>(operands.w.size(1) * operands.w.size(2) * operands.w.size(3));
    return static_cast<std::int64_t>(takes_pixels ? elements : align_up(elements, kRowElements));
  }

  std::size_t row_bytes() const { return static_cast<std::size_t>(row_) * size_of(operands_.x.dtype()); }

  Product product_of(std::int64_t pixels) const {
    const DType dtype = operands_.x.dtype();
    const std::int64_t out = operands_.y.size(2);
    return Product({.a = {dtype, pixels, row_, row_}, .b = {dtype, out, row_, row_}, .d = {dtype, pixels, out, out}});
  }

  void run_chunk(std::int64_t begin, const TensorView& windows, const TensorView& weights, std::byte* workspace,
                 cudaStream_t stream) const;

  const ConvOperands& operands_;
  bool takes_pixels_;
  std::int64_t row_;
  std::int64_t pixels_;
  std::int64_t step_;
  Product full_;
  Product last_;
};

void ConvProducts::run_chunk(std::int64_t begin, const TensorView& windows, const TensorView& weights,
                             std::byte* workspace, cudaStream_t stream) const {
  const auto& [x, w, bias, options, y] = operands_;
  if (!takes_pixels_) gather_windows_async({x, w.size(2), w.size(3), y.size(1), options}, begin, windows, stream);
  const TensorView results = y.reshape({pixels_, y.size(2)}).slice(0, begin, begin + windows.size(0));
  (windows.size(0) == step_ ? full_ : last_)
      .run_async({.a = takes_pixels_ ? x.data() : windows.data(), .b = weights.data(), .d = results.data(), .beta = 1},
                 workspace, stream);
}

void ConvProducts::launch(OpContext& context) {
  const auto& [x, w, bias, options, y] = operands_;
  Scratch scratch;  // which starts on 256 bytes, as the workspace must
  const std::size_t workspace = scratch.add(std::max(full_.workspace_bytes(), last_.workspace_bytes()));
  const std::size_t weights = scratch.add(static_cast<std::size_t>(w.size(0)) * row_bytes());
  const std::size_t windows = scratch.add(takes_pixels_ ? 0 : static_cast<std::size_t>(step_) * row_bytes());
  scratch.obtain(context);
  cuda_launch(context, "conv2d", {x, w, bias}, {y}, scratch.range(), [&](cudaStream_t stream) {
    const TensorView rows(scratch.at(weights), operands_.x.dtype(), {operands_.w.size(0), row_});
    channels_last_async(operands_.w, rows, stream);
    // As in linear: the products are added to the bias.
    fill_rows_async(operands_.bias, operands_.y.reshape({pixels_, operands_.y.size(2)}), stream);
    for (std::int64_t begin = 0; begin < pixels_; begin += step_) {
      const Shape shape{std::min(step_, pixels_ - begin), row_};
      run_chunk(begin, {scratch.at(windows), operands_.x.dtype(), shape}, rows, scratch.at(workspace), stream);
    }
  });
}

}  // namespace

bool is_pointwise(const ConvOperands& operands) {
  // The result is as large as the image only without padding.
  return operands.w.size(2) == 1 && operands.w.size(3) == 1 && operands.options.stride == 1 &&
         operands.y.size(0) == operands.x.size(0) && operands.y.size(1) == operands.x.size(1);
}

void convolve_by_products(OpContext& context, const ConvOperands& operands) {
  ConvProducts(operands).launch(context);
}

}  // namespace lamina::ops::cuda
