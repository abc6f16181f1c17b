#pragma once

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// y = x, element by element. Of one shape of at most four axes and one dtype, f32 or bf16; the last axes are
/// contiguous, the others may be strided, so that a permuted view gathers, and into one scatters. y does not overlap x.
void copy(OpContext& context, const ConstTensorView& x, const TensorView& y);

}  // namespace lamina::ops
