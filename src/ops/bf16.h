#pragma once

#include <cstddef>

#include "tensor/bf16.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

using lamina::narrow;
using lamina::widen;

/// Writes the elements of a contiguous f32 or bf16 view as f32.
void widen(const ConstTensorView& source, float* destination);

/// The elements of a contiguous f32 or bf16 view as f32: where they are, else widened into `space`.
const std::byte* as_f32(const ConstTensorView& view, float* space);

/// The space that `as_f32` needs.
std::size_t widened_bytes(const ConstTensorView& view);

}  // namespace lamina::ops
