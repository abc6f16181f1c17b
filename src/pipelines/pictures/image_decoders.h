#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "pipelines/pictures/image.h"

namespace lamina {

// The formats behind `read_picture`, with its errors; `source` names the file. Pixels are as stored, not yet upright.
// libpng and libjpeg report errors by a jump out of the call; the functions jumped out of own nothing that needs a
// destructor.

PictureFile decode_png(std::span<const std::byte> bytes, std::string_view source);
PictureFile decode_jpeg(std::span<const std::byte> bytes, std::string_view source);
PictureFile decode_webp(std::span<const std::byte> bytes, std::string_view source);

/// A black picture of that size, or an error where it is too large.
RgbImage allocate_image(std::int64_t height, std::int64_t width, std::string_view source);

}  // namespace lamina
