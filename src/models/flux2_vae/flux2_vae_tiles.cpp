#include "models/flux2_vae/flux2_vae_tiles.h"

#include <algorithm>

#include "base/error.h"
#include "device/stream.h"
#include "ops/tiles.h"

namespace lamina {
namespace {

using Span = Flux2VaeTiles::Span;

/// The part of a picture under a tile; `scale` is the picture's pixels along a latent one.
template <typename View>
View window_of(const View& picture, const Span& rows, const Span& columns, std::int64_t scale) {
  return picture.slice(0, rows.begin * scale, rows.end * scale).slice(1, columns.begin * scale, columns.end * scale);
}

ops::TileOverlap overlap_of(const Span& rows, const Span& columns, std::int64_t scale) {
  return {.top = rows.shared_before * scale,
          .left = columns.shared_before * scale,
          .bottom = rows.shared_behind * scale,
          .right = columns.shared_behind * scale};
}

}  // namespace

Flux2VaeTiles::Flux2VaeTiles(const Flux2VaeConfig& config)
    : side_(std::max<std::int64_t>(config.sample_size / config.spatial_factor(), 1)), overlap_(side_ / 4) {}

std::vector<Span> Flux2VaeTiles::spans(std::int64_t extent) const {
  std::vector<Span> spans{{0, std::min(side_, extent), 0, 0}};
  while (spans.back().end < extent) {
    Span& before = spans.back();
    const std::int64_t begin = before.end - overlap_;
    before.shared_behind = overlap_;
    spans.push_back({begin, std::min(begin + side_, extent), overlap_, 0});
  }
  return spans;
}

std::size_t Flux2VaeTiles::count(std::int64_t height, std::int64_t width) const {
  return spans(height).size() * spans(width).size();
}

void Flux2VaeTiles::run(ops::OpContext& context, Arena& arena, const ConstTensorView& input, const TensorView& output,
                        const Run& run) const {
  const std::int64_t height = std::min(input.size(0), output.size(0));
  const std::int64_t width = std::min(input.size(1), output.size(1));
  const std::int64_t input_scale = input.size(0) / height;
  const std::int64_t output_scale = output.size(0) / height;
  expects(output.is_contiguous(), "tiles are put together in a tensor {}", to_string(output.shape()));
  if (!context.is_planning())
    context.stream().fill_async(output.data(), output.span_bytes(), std::byte{0}, "clear for tiles");
  for (const Span& rows : spans(height))
    for (const Span& columns : spans(width)) {
      const std::size_t mark = arena.used_bytes();
      const ConstTensorView from = window_of(input, rows, columns, input_scale);
      const TensorView to = window_of(output, rows, columns, output_scale);
      const TensorView tile = arena.take(input.dtype(), from.shape());
      const TensorView made = arena.take(input.dtype(), to.shape());
      ops::cut_tile(context, from, tile);
      run(tile, made);
      ops::blend_tile(context, made, overlap_of(rows, columns, output_scale), to);
      arena.rewind(mark);
    }
}

}  // namespace lamina
