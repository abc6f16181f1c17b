#pragma once

#include <cstdint>

#include "pipelines/pictures/image.h"

namespace lamina {

/// `image` at another size through a Lanczos window of 3 lobes, byte for byte as Pillow resizes 8-bit pictures: along
/// the rows, rounded to 8 bits, then along the columns, with coefficients of 22 fractional bits.
/// Source: Pillow, src/libImaging/Resample.c.
RgbImage resize_lanczos(const RgbImage& image, std::int64_t height, std::int64_t width);

}  // namespace lamina
