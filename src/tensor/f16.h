#pragma once

#include <bit>
#include <cstdint>

namespace lamina {

/// IEEE binary16 as f32, exactly: subnormals, infinities and the payloads of NaNs included.
inline float widen_f16(std::uint16_t f16) {
  constexpr std::uint32_t kExponent = 0x7C00U << 13;          // of a half, where an f32 has its own
  constexpr std::uint32_t kBias = (127U - 15U) << 23;         // from the one exponent to the other
  constexpr std::uint32_t kLeastNormal = (127U - 14U) << 23;  // 2^-14, the exponent of subnormals
  const std::uint32_t sign = (f16 & 0x8000U) << 16;
  const std::uint32_t magnitude = (f16 & 0x7FFFU) << 13;
  const std::uint32_t exponent = magnitude & kExponent;
  if (exponent == kExponent) return std::bit_cast<float>(sign | 0x70000000U | magnitude);
  if (exponent != 0) return std::bit_cast<float>(sign | (magnitude + kBias));
  // The difference of two normal numbers, so that threads that flush subnormals get it too.
  const float value = std::bit_cast<float>(kLeastNormal | magnitude) - std::bit_cast<float>(kLeastNormal);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace lamina
