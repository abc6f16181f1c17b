#include "ops/group_norm.h"

#include "base/error.h"
#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void channel_moments(OpContext& context, const ConstTensorView& x, const TensorView& moments) {
  Operand("channel_moments", "x", x).activation(context).rank(3).contiguous();
  Operand("channel_moments", "moments", moments).dtype({DType::f64}).shape({2, x.size(2)}).contiguous();

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::channel_moments(context, x, moments);
    case DeviceKind::cuda: return cuda::channel_moments(context, x, moments);
  }
}

void group_normalisation(OpContext& context, const ConstTensorView& moments, std::int64_t pixels,
                         const ConstTensorView& weight, const ConstTensorView& bias, const GroupNormOptions& options,
                         const TensorView& normalisation) {
  Operand("group_normalisation", "moments", moments).dtype({DType::f64}).rank(3).contiguous();
  const std::int64_t channels = moments.size(2);
  Operand("group_normalisation", "moments", moments).shape({moments.size(0), 2, channels});
  Operand("group_normalisation", "weight", weight).f32_or_bf16().shape({channels}).contiguous();
  Operand("group_normalisation", "bias", bias).f32_or_bf16().shape({channels}).contiguous();
  Operand("group_normalisation", "normalisation", normalisation).f32().shape({3, channels}).contiguous();
  expects(options.groups > 0 && channels % options.groups == 0,
          "group_normalisation: {} channels do not form {} groups", channels, options.groups);
  expects(pixels > 0, "group_normalisation: moments of {} pixels", pixels);

  switch (device_kind(context)) {
    case DeviceKind::cpu:
      return cpu::group_normalisation(context, moments, pixels, weight, bias, options, normalisation);
    case DeviceKind::cuda:
      return cuda::group_normalisation(context, moments, pixels, weight, bias, options, normalisation);
  }
}

void normalise_channels(OpContext& context, const ConstTensorView& x, const ConstTensorView& normalisation,
                        Activation activation, const TensorView& y) {
  const Operand input("normalise_channels", "x", x);
  input.activation(context).rank(3).contiguous();
  Operand("normalise_channels", "normalisation", normalisation).f32().shape({3, x.size(2)}).contiguous();
  Operand("normalise_channels", "y", y).like(input).shape(x.shape()).contiguous().same_or_apart_from(input);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::normalise_channels(context, x, normalisation, activation, y);
    case DeviceKind::cuda: return cuda::normalise_channels(context, x, normalisation, activation, y);
  }
}

}  // namespace lamina::ops
