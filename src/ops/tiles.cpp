#include "ops/tiles.h"

#include "base/error.h"
#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

void cut_tile(OpContext& context, const ConstTensorView& window, const TensorView& tile) {
  const Operand from("cut_tile", "window", window);
  from.f32_or_bf16().rank(3).rows();
  Operand("cut_tile", "tile", tile).like(from).shape(window.shape()).contiguous().apart_from(from);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::cut_tile(context, window, tile);
    case DeviceKind::cuda: return cuda::cut_tile(context, window, tile);
  }
}

void blend_tile(OpContext& context, const ConstTensorView& tile, const TileOverlap& overlap, const TensorView& window) {
  const Operand from("blend_tile", "tile", tile);
  from.activation(context).rank(3).contiguous();
  Operand("blend_tile", "window", window).f32().shape(tile.shape()).rows().apart_from(from);
  const auto& [top, left, bottom, right] = overlap;
  expects(top >= 0 && left >= 0 && bottom >= 0 && right >= 0 && top + bottom <= tile.size(0) &&
              left + right <= tile.size(1),
          "blend_tile: overlaps {}, {}, {}, {} of a tile {}", top, left, bottom, right, to_string(tile.shape()));

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::blend_tile(context, tile, overlap, window);
    case DeviceKind::cuda: return cuda::blend_tile(context, tile, overlap, window);
  }
}

}  // namespace lamina::ops
