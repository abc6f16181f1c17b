#pragma once

#include "pipelines/pictures/image.h"

namespace lamina {

/// The picture turned upright: `orientation` is EXIF's, from 1 (it is upright) to 8. Source: EXIF 2.32, tag
/// Orientation.
RgbImage turn_upright(RgbImage image, int orientation);

}  // namespace lamina
