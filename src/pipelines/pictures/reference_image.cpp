#include "pipelines/pictures/reference_image.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

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

/// Size and place of what is used of a picture that became `scaled`.
std::string describe_change(const RgbImage& image, const RgbImage& scaled, const ReferenceImage& reference,
                            std::string_view source) {
  const bool is_scaled = scaled.width != image.width || scaled.height != image.height;
  const bool is_cropped = reference.width != scaled.width || reference.height != scaled.height;
  return fmt::format("{}: {} x {} pixels are used as {} x {}: {}{}{}", source, image.width, image.height,
                     reference.width, reference.height,
                     is_scaled ? fmt::format("scaled to {} x {}", scaled.width, scaled.height) : "",
                     is_scaled && is_cropped ? ", " : "", is_cropped ? "the edges are cropped" : "");
}

}  // namespace

ReferenceImage prepare_reference(const RgbImage& image, std::int64_t patch_pixels, std::string_view source) {
  expects(patch_pixels > 0 && patch_pixels <= kMinSidePixels, "a patch of {} pixels", patch_pixels);
  check_proportions(image, source);
  const RgbImage limited = limit_area(image);
  ReferenceImage reference{
      limited.height / patch_pixels * patch_pixels, limited.width / patch_pixels * patch_pixels, {}, {}};
  if (reference.height != image.height || reference.width != image.width)
    reference.notes.push_back(describe_change(image, limited, reference, source));
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

ReferenceImage prepare_reference(const PictureFile& picture, std::int64_t patch_pixels, std::string_view source) {
  ReferenceImage reference = prepare_reference(picture.image, patch_pixels, source);
  if (const std::optional<std::string> profile = foreign_colour_profile(picture.metadata.icc_profile))
    reference.notes.push_back(
        fmt::format("{}: its colour profile ({}) is not applied, as in the reference implementation; convert the "
                    "picture to sRGB where its colours matter",
                    source, *profile));
  return reference;
}

}  // namespace lamina
