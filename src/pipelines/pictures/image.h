#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lamina {

/// A picture of 8-bit red, green and blue: [height, width, 3], rows from top to bottom.
struct RgbImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;

  bool operator==(const RgbImage&) const = default;
};

/// round(255 clamp(v, 0, 1)), ties to even, of `values` [height, width, 3]. Throws corrupt where a value is NaN.
RgbImage quantize_image(std::span<const float> values, std::int64_t height, std::int64_t width);

/// Reads PNG or JPEG, told apart by content, as Pillow's convert("RGB") does: grey becomes equal channels, alpha is
/// dropped, colour profiles, gamma and the EXIF orientation are ignored. Of 16 bits the upper 8 count. Throws corrupt
/// for a damaged or truncated file, invalid_argument for another format or more than 178,956,970 pixels,
/// not_implemented for a JPEG in four colours; all name the file.
RgbImage read_image(const std::filesystem::path& file);
/// The same of a file's bytes; `source` names them in errors.
RgbImage decode_image(std::span<const std::byte> bytes, std::string_view source);

/// A key and a value in UTF-8 that a PNG carries.
struct PngText {
  std::string key;  ///< 1 to 79 printable ASCII characters
  std::string value;
};

/// The bytes of a PNG file: a tEXt chunk for each text that fits Latin-1, iTXt for the others, no time; equal arguments
/// give equal bytes. Throws invalid_argument for a text that is not UTF-8 or holds a zero byte.
std::vector<std::byte> encode_png(const RgbImage& image, const std::vector<PngText>& texts);

/// Writes those and commits `file`. Throws unavailable as `AtomicFile` does.
void write_png(AtomicFile file, const RgbImage& image, const std::vector<PngText>& texts);

}  // namespace lamina
