#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

struct Conv2dOptions {
  int stride = 1;
  /// Zero rows and columns added on each side.
  int pad_top = 0;
  int pad_left = 0;
  int pad_bottom = 0;
  int pad_right = 0;
};

/// y = conv(x, w) + bias, cross-correlation as in the field's frameworks.
/// x [height, width, in], y [height', width', out] activations, contiguous (channels last); w [out, in, kh, kw]
/// contiguous and bias [out], f32 or bf16. height' = (height + pad_top + pad_bottom - kh) / stride + 1, width'
/// likewise. y must not overlap x.
void conv2d(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const ConstTensorView& bias,
            const Conv2dOptions& options, const TensorView& y);

/// Nearest-neighbour: y[2i + a, 2j + b] = x[i, j]. x [height, width, channels], y [2 height, 2 width, channels],
/// activations, contiguous, not overlapping.
void upsample_nearest_2x(OpContext& context, const ConstTensorView& x, const TensorView& y);

}  // namespace lamina::ops
