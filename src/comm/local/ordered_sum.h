#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace lamina::local {

/// Sums arrays of f32 or bf16 of `size_bytes`, in f32 and in their order, and writes the sum, rounded once, to each of
/// `sums`. Those may be addends themselves.
void sum_in_order(DType dtype, std::size_t size_bytes, const std::vector<const std::byte*>& addends,
                  std::span<std::byte* const> sums);

}  // namespace lamina::local
