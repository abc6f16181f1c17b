#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/pictures/image.h"

namespace lamina {

/// A reference picture as the VAE's encoder takes it: [height, width, 3] in -1..1, both sides multiples of the patch.
struct ReferenceImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<float> values;
  /// What was done to the picture beyond reading it, one sentence each.
  std::vector<std::string> notes;
};

/// Scales a picture of more than 1024 x 1024 pixels down to that area, then cuts both sides to multiples of
/// `patch_pixels` around the centre. Throws invalid_argument naming `source` (the file) for a side below 64 pixels or
/// one side more than 8 times the other. Source: FLUX.2 pipeline and image processor of diffusers.
ReferenceImage prepare_reference(const RgbImage& image, std::int64_t patch_pixels, std::string_view source);

/// The same of a picture's file; also notes a colour profile, which the reference implementation does not apply either.
ReferenceImage prepare_reference(const PictureFile& picture, std::int64_t patch_pixels, std::string_view source);

}  // namespace lamina
