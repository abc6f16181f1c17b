#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace lamina {

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

}  // namespace lamina
