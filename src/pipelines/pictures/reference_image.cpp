#include "pipelines/pictures/reference_image.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/error.h"
#include "pipelines/pictures/lanczos.h"

namespace lamina {
namespace {

constexpr std::int64_t kMinSidePixels = 64;
constexpr std::int64_t kMaxAspect = 8;
constexpr std::int64_t kMaxArea = 1024 * 1024;

void check_proportions(const RgbImage& image, std::string_view source) {
  const auto [shorter, longer] = std::minmax(image.height, image.width);
  if (shorter < kMinSidePixels)
    fail(ErrorCode::invalid_argument, "{}: {} x {} pixels; reference pictures need at least {} on each side", source,
         image.width, image.height, kMinSidePixels);
  if (longer > kMaxAspect * shorter)
    fail(ErrorCode::invalid_argument, "{}: {} x {} pixels; one side may be at most {} times the other", source,
         image.width, image.height, kMaxAspect);
}

RgbImage limit_area(const RgbImage& image) {
  if (image.height * image.width <= kMaxArea) return image;
  const double scale = std::sqrt(static_cast<double>(kMaxArea) / static_cast<double>(image.height * image.width));
  return resize_lanczos(image, static_cast<std::int64_t>(static_cast<double>(image.height) * scale),
                        static_cast<std::int64_t>(static_cast<double>(image.width) * scale));
}

}  // namespace

ReferenceImage prepare_reference(const RgbImage& image, std::int64_t patch_pixels, std::string_view source) {
  expects(patch_pixels > 0 && patch_pixels <= kMinSidePixels, "a patch of {} pixels", patch_pixels);
  check_proportions(image, source);
  const RgbImage limited = limit_area(image);
  ReferenceImage reference{
      limited.height / patch_pixels * patch_pixels, limited.width / patch_pixels * patch_pixels, {}};
  const std::int64_t top = (limited.height - reference.height) / 2;
  const std::int64_t left = (limited.width - reference.width) / 2;
  reference.values.reserve(static_cast<std::size_t>(reference.height * reference.width * 3));
  for (std::int64_t row = 0; row < reference.height; ++row) {
    const std::uint8_t* line = limited.pixels.data() + ((top + row) * limited.width + left) * 3;
    for (std::int64_t i = 0; i < reference.width * 3; ++i)
      reference.values.push_back(2.0F * (static_cast<float>(line[i]) / 255.0F) - 1.0F);
  }
  return reference;
}

}  // namespace lamina
