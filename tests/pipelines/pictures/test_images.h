#pragma once

#include <cstdint>

#include "pipelines/pictures/image.h"

namespace lamina::testing {

/// The picture that the recorded resizes were made of.
inline RgbImage pattern(std::int64_t height, std::int64_t width) {
  RgbImage image{height, width, {}};
  for (std::int64_t r = 0; r < height; ++r)
    for (std::int64_t c = 0; c < width; ++c)
      for (std::int64_t k = 0; k < 3; ++k)
        image.pixels.push_back(static_cast<std::uint8_t>((r * r * 3 + c * c * 7 + r * c * 11 + k * 97) / 16 % 256));
  return image;
}

/// FNV-1a.
inline std::uint64_t hash(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const std::uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3;
  return value;
}

}  // namespace lamina::testing
