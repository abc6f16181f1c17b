#include "ops/conv.h"

#include "base/error.h"
#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

namespace {

Shape convolved(const ConstTensorView& x, const ConstTensorView& w, const Conv2dOptions& options) {
  expects(options.stride > 0, "conv2d: stride {}", options.stride);
  const auto extent = [&](std::int64_t size, int pad_before, int pad_after, std::int64_t kernel) {
    expects(pad_before >= 0 && pad_after >= 0, "conv2d: padding {}, {}", pad_before, pad_after);
    const std::int64_t padded = size + pad_before + pad_after;
    expects(padded >= kernel, "conv2d: a kernel of {} on {} padded pixels", kernel, padded);
    return (padded - kernel) / options.stride + 1;
  };
  return {extent(x.size(0), options.pad_top, options.pad_bottom, w.size(2)),
          extent(x.size(1), options.pad_left, options.pad_right, w.size(3)), w.size(0)};
}

}  // namespace

void conv2d(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const ConstTensorView& bias,
            const Conv2dOptions& options, const TensorView& y) {
  const Operand input("conv2d", "x", x);
  input.activation(context).rank(3).contiguous();
  Operand("conv2d", "w", w).f32_or_bf16().rank(4).shape({w.size(0), x.size(2), w.size(2), w.size(3)}).contiguous();
  Operand("conv2d", "bias", bias).f32_or_bf16().shape({w.size(0)}).contiguous();
  Operand("conv2d", "y", y).like(input).shape(convolved(x, w, options)).contiguous().apart_from(input);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::conv2d(context, x, w, bias, options, y);
    case DeviceKind::cuda: return cuda::conv2d(context, x, w, bias, options, y);
  }
}

void upsample_nearest_2x(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  const Operand input("upsample_nearest_2x", "x", x);
  input.activation(context).rank(3).contiguous();
  Operand("upsample_nearest_2x", "y", y)
      .like(input)
      .shape({2 * x.size(0), 2 * x.size(1), x.size(2)})
      .contiguous()
      .apart_from(input);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::upsample_nearest_2x(context, x, y);
    case DeviceKind::cuda: return cuda::upsample_nearest_2x(context, x, y);
  }
}

}  // namespace lamina::ops
