#pragma once

#include <cstdint>

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

// Group norm in three steps, so that a picture may be taken band by band: the moments of each band, the normalisation
// that they make up together, and each band normalised. Pictures are [height, width, channels], contiguous.

enum class Activation { none, silu };

struct GroupNormOptions {
  int groups = 1;  ///< of adjacent channels; divides their number
  float epsilon = 1e-6F;
};

/// Of each channel of x, an activation, the sum of its elements and the sum of their squares: moments [2, channels]
/// f64, contiguous.
void channel_moments(OpContext& context, const ConstTensorView& x, const TensorView& moments);

/// What normalises the groups of a picture of `pixels` pixels, whose bands' moments [bands, 2, channels] f64 are added
/// up in order. Weight and bias [channels], f32 or bf16. normalisation [3, channels] f32: centre, scale and shift.
void group_normalisation(OpContext& context, const ConstTensorView& moments, std::int64_t pixels,
                         const ConstTensorView& weight, const ConstTensorView& bias, const GroupNormOptions& options,
                         const TensorView& normalisation);

/// y = activation((x - centre) * scale + shift), which is activation((x - mean) / sqrt(variance + epsilon) * weight +
/// bias). x, y activations of one shape. y may be x.
void normalise_channels(OpContext& context, const ConstTensorView& x, const ConstTensorView& normalisation,
                        Activation activation, const TensorView& y);

}  // namespace lamina::ops
