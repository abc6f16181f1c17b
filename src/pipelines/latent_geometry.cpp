#include "pipelines/latent_geometry.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "models/flux2_vae/flux2_vae_config.h"

namespace lamina {
namespace {

void check_side(std::string_view side, std::int64_t pixels, std::int64_t unit) {
  const std::int64_t largest = LatentGeometry::kMaxSidePixels / unit * unit;
  const std::int64_t below = std::clamp(pixels / unit * unit, unit, largest);
  if (pixels == below) return;
  const std::int64_t above = pixels > below ? std::min(below + unit, largest) : below;
  const std::string nearest = above > below ? fmt::format("nearest legal {}s are {} and {}", side, below, above)
                                            : fmt::format("the nearest legal {} is {}", side, below);
  fail(ErrorCode::invalid_argument, "{} {} is not a multiple of {} from {} to {}; {}", side, pixels, unit, unit,
       largest, nearest);
}

}  // namespace

LatentGeometry::LatentGeometry(std::int64_t vae_factor, std::int64_t patch_size)
    : patch_pixels_(vae_factor * patch_size) {
  expects(patch_pixels_ > 0 && patch_pixels_ <= kMaxSidePixels, "patches of {} x {} pixels", vae_factor, patch_size);
}

LatentGeometry LatentGeometry::without_vae() {
  constexpr std::int64_t kVaeFactor = 8;
  return {kVaeFactor, Flux2VaeConfig::kPatchSide};
}

TokenGrid LatentGeometry::grid(std::int64_t height_pixels, std::int64_t width_pixels) const {
  check_side("height", height_pixels, patch_pixels_);
  check_side("width", width_pixels, patch_pixels_);
  return {height_pixels / patch_pixels_, width_pixels / patch_pixels_};
}

}  // namespace lamina
