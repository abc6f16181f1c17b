#pragma once

#include <optional>

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// y = x wᵀ (+ bias).
/// x [rows, in], y [rows, out]: activations, rows may be strided, features contiguous; y is f32 or of x's dtype.
/// w [out, in] contiguous, f32 or bf16. bias [out], f32 or bf16.
/// y must not overlap x. Accumulates in f32.
void linear(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
            const std::optional<ConstTensorView>& bias = std::nullopt);

}  // namespace lamina::ops
