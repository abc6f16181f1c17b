#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace lamina::ops {

/// bf16 is the upper half of an f32.
inline float widen(std::uint16_t bf16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

/// Rounds to nearest even; a NaN stays a NaN of the same sign.
inline std::uint16_t narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  const std::uint32_t quiet_nan = bits | 0x00400000U;
  return static_cast<std::uint16_t>((std::isnan(value) ? quiet_nan : rounded) >> 16);
}

/// Writes the elements of a contiguous f32 or bf16 view as f32.
void widen(const ConstTensorView& source, float* destination);

/// The elements of a contiguous f32 or bf16 view as f32: where they are, else widened into `space`.
const std::byte* as_f32(const ConstTensorView& view, float* space);

/// The space that `as_f32` needs.
std::size_t widened_bytes(const ConstTensorView& view);

}  // namespace lamina::ops
