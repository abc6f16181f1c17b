#pragma once

#include <cstdint>

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

// A picture [height, width, channels], channels last, is read and put together tile by tile. A window is the part of
// it under a tile: of the tile's shape, with contiguous channels.

/// tile = window, of one dtype, f32 or bf16; the tile contiguous.
void cut_tile(OpContext& context, const ConstTensorView& window, const TensorView& tile);

/// Pixels that a tile shares with its neighbours; 0 at the picture's edge. What is shared above and below, or left and
/// right, does not meet.
struct TileOverlap {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t bottom = 0;
  std::int64_t right = 0;
};

/// window += weight * tile. Along each axis the weight rises over an overlap of n pixels as 0, 1/n, ... and falls as 1,
/// (n - 1)/n, ...; so the weights of neighbours add up to one. Tile an activation, contiguous; window f32.
void blend_tile(OpContext& context, const ConstTensorView& tile, const TileOverlap& overlap, const TensorView& window);

}  // namespace lamina::ops
