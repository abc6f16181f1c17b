#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "pipelines/pictures/picture_metadata.h"

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

/// A picture's file: upright pixels, and what it stores beside them.
struct PictureFile {
  RgbImage image;
  PictureMetadata metadata;
};

/// Reads PNG, JPEG or WebP, told apart by content, as Pillow's `exif_transpose` and convert("RGB") do: the picture is
/// turned upright, grey becomes equal channels, CMYK and YCCK become RGB by Pillow's formula, alpha is dropped, of an
/// animation the first frame is read. Colour profiles and gamma are not applied. Of 16 bits the upper 8 count. Throws
/// corrupt for a damaged or truncated file, invalid_argument for another format or more than 178,956,970 pixels; all
/// name the file.
PictureFile read_picture(const std::filesystem::path& file);
/// The same of a file's bytes; `source` names them in errors.
PictureFile decode_picture(std::span<const std::byte> bytes, std::string_view source);

/// The bytes of a PNG file: a tEXt chunk for each text that fits Latin-1, iTXt for the others, no time; equal arguments
/// give equal bytes. Throws invalid_argument for a text that is not UTF-8 or holds a zero byte.
std::vector<std::byte> encode_png(const RgbImage& image, const std::vector<PictureText>& texts);

/// Writes those and commits `file`. Throws unavailable as `AtomicFile` does.
void write_png(AtomicFile file, const RgbImage& image, const std::vector<PictureText>& texts);

}  // namespace lamina
