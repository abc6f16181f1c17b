#pragma once

#include <cstdint>

namespace lamina {

/// A picture's latent tokens: one per patch, row by row.
struct TokenGrid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  std::int64_t tokens() const noexcept { return rows * columns; }
  bool operator==(const TokenGrid&) const = default;
};

/// How pictures and their latent tokens relate: a token covers a square of `patch_pixels` = VAE factor times patch size
/// (8 * 2 for FLUX.2). Source: FLUX.2 pipeline of diffusers.
class LatentGeometry {
 public:
  /// The longest side. The schedule's shift grows with the token count: at 4096 x 4096 all sigmas of 50 steps but the
  /// final zero are above 0.999, so that nothing larger could come out right.
  static constexpr std::int64_t kMaxSidePixels = 4096;

  LatentGeometry(std::int64_t vae_factor, std::int64_t patch_size);

  /// That of FLUX.2, the only family so far, where a model has no VAE to tell its own.
  static LatentGeometry without_vae();

  std::int64_t patch_pixels() const noexcept { return patch_pixels_; }

  /// Throws invalid_argument naming the side, its value and the nearest legal ones, unless both are positive multiples
  /// of `patch_pixels` up to the limit.
  TokenGrid grid(std::int64_t height_pixels, std::int64_t width_pixels) const;

 private:
  std::int64_t patch_pixels_;
};

}  // namespace lamina
