#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"

namespace lamina::ops::cpu {

namespace {

/// Weight of pixel `i` of `count` along one axis.
float weight_at(std::int64_t i, std::int64_t count, std::int64_t rise, std::int64_t fall) {
  if (i < rise) return static_cast<float>(i) / static_cast<float>(rise);
  if (i >= count - fall) return static_cast<float>(count - i) / static_cast<float>(fall);
  return 1.0F;
}

}  // namespace

void cut_tile(OpContext& context, const ConstTensorView& window, const TensorView& tile) {
  cpu_launch(context, "cut_tile", {window}, {tile}, {}, [=] {
    const auto size = static_cast<std::int64_t>(size_of(tile.dtype()));
    const std::int64_t pixel_bytes = tile.size(2) * size;
    std::byte* to = tile.data();
    for (std::int64_t row = 0; row < tile.size(0); ++row)
      for (std::int64_t column = 0; column < tile.size(1); ++column) {
        const std::int64_t offset = row * window.stride(0) + column * window.stride(1);
        to = std::copy_n(window.data() + offset * size, pixel_bytes, to);
      }
  });
}

void blend_tile(OpContext& context, const ConstTensorView& tile, const TileOverlap& overlap, const TensorView& window) {
  cpu_launch(context, "blend_tile", {tile, window}, {window}, {}, [=] {
    const float* from = tile.as<float>();
    for (std::int64_t row = 0; row < tile.size(0); ++row) {
      const float down = weight_at(row, tile.size(0), overlap.top, overlap.bottom);
      for (std::int64_t column = 0; column < tile.size(1); ++column) {
        const float weight = down * weight_at(column, tile.size(1), overlap.left, overlap.right);
        float* to = window.as<float>() + row * window.stride(0) + column * window.stride(1);
        for (std::int64_t channel = 0; channel < tile.size(2); ++channel) to[channel] += weight * *from++;
      }
    }
  });
}

}  // namespace lamina::ops::cpu
