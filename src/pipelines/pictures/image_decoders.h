#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "pipelines/pictures/image.h"

namespace lamina {

// The two formats behind `read_image`, with its errors; `source` names the file. Both libraries report errors by a jump
// out of the call; the functions jumped out of own nothing that needs a destructor.

RgbImage decode_png(std::span<const std::byte> bytes, std::string_view source);
RgbImage decode_jpeg(std::span<const std::byte> bytes, std::string_view source);

/// A black picture of that size, or an error where it is too large.
RgbImage allocate_image(std::int64_t height, std::int64_t width, std::string_view source);

}  // namespace lamina
