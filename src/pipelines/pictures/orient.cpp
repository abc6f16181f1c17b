#include "pipelines/pictures/orient.h"

#include <cstddef>
#include <utility>

#include "base/error.h"

namespace lamina {

RgbImage turn_upright(RgbImage image, int orientation) {
  expects(orientation >= 1 && orientation <= 8, "an orientation of {}", orientation);
  if (orientation == 1) return image;
  const bool swaps_axes = orientation >= 5;
  const bool flips_rows = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool flips_columns = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  RgbImage upright{swaps_axes ? image.width : image.height, swaps_axes ? image.height : image.width, {}};
  upright.pixels.reserve(image.pixels.size());
  for (std::int64_t y = 0; y < upright.height; ++y) {
    for (std::int64_t x = 0; x < upright.width; ++x) {
      std::int64_t row = swaps_axes ? x : y;
      std::int64_t column = swaps_axes ? y : x;
      if (flips_rows) row = image.height - 1 - row;
      if (flips_columns) column = image.width - 1 - column;
      const auto pixel = image.pixels.begin() + (row * image.width + column) * 3;
      upright.pixels.insert(upright.pixels.end(), pixel, pixel + 3);
    }
  }
  return upright;
}

}  // namespace lamina
