#pragma once

#include <cstdint>

#include "pipelines/pictures/image.h"

namespace lamina {

/// `image` at another size through a Lanczos window of 3 lobes, byte for byte as Pillow 13 resizes 8-bit pictures:
/// along the rows, rounded to 8 bits, then along the columns, with coefficients of 22 fractional bits. A picture that
/// loses more than twice as many rows as columns goes along the columns first. Source: Pillow,
/// src/libImaging/Resample.c; the order of the passes was found by trying sizes.
RgbImage resize_lanczos(const RgbImage& image, std::int64_t height, std::int64_t width);

}  // namespace lamina
