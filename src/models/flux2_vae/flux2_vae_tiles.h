#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "models/flux2_vae/flux2_vae_config.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

/// How the autoencoder works on one part of a picture after the other, so that its memory no longer grows with the
/// picture: in tiles of the size that it was made for, which overlap by a quarter and are blended linearly. Norms and
/// attention see one tile at a time, so the result differs slightly from one made whole.
/// Source: diffusers, AutoencoderKL with enable_tiling (tile_sample_min_size, tile_overlap_factor). Unlike there, no
/// tile follows one that already reaches the picture's edge, and where four tiles meet all four count.
class Flux2VaeTiles {
 public:
  /// A tile along one axis, in latent pixels, and how many it shares with its neighbours.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t shared_before = 0;
    std::int64_t shared_behind = 0;
    bool operator==(const Span&) const = default;
  };
  using Run = std::function<void(const ConstTensorView& input, const TensorView& output)>;

  explicit Flux2VaeTiles(const Flux2VaeConfig& config);

  /// The tiles along `extent` latent pixels.
  std::vector<Span> spans(std::int64_t extent) const;
  /// Of a latent [height, width]; 1: it is no larger than a tile.
  std::size_t count(std::int64_t height, std::int64_t width) const;

  /// input -> output f32, both [height, width, channels], contiguous, one of them the latent and the other the picture:
  /// `run` makes each tile of the output, in the input's dtype, out of the same tile of the input. Enqueues on the
  /// context's stream and returns; `arena` is as it was afterwards.
  void run(ops::OpContext& context, Arena& arena, const ConstTensorView& input, const TensorView& output,
           const Run& run) const;

 private:
  std::int64_t side_;
  std::int64_t overlap_;
};

}  // namespace lamina
