#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

enum class Activation { none, silu };

struct GroupNormOptions {
  int groups = 1;  ///< of adjacent channels; divides their number
  float epsilon = 1e-6F;
  Activation activation = Activation::none;
};

/// y = activation((x - mean) / sqrt(variance + epsilon) * weight + bias), mean and variance per group over all pixels.
/// x, y [height, width, channels] activations, contiguous; weight, bias [channels], f32 or bf16. y may be x.
void group_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, const GroupNormOptions& options, const TensorView& y);

}  // namespace lamina::ops
