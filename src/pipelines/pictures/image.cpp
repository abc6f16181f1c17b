#include "pipelines/pictures/image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "pipelines/pictures/image_decoders.h"
#include "pipelines/pictures/orient.h"

namespace lamina {
namespace {

/// Where Pillow, too, takes a picture for an attack: a small file can claim any size.
constexpr std::int64_t kMaxPixels = 178'956'970;

constexpr std::array<std::byte, 8> kPngSignature = {std::byte{0x89}, std::byte{'P'},  std::byte{'N'},  std::byte{'G'},
                                                    std::byte{'\r'}, std::byte{'\n'}, std::byte{0x1A}, std::byte{'\n'}};
constexpr std::array<std::byte, 3> kJpegSignature = {std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}};

/// "RIFF", four bytes of size, "WEBP".
constexpr std::size_t kWebpHeaderBytes = 12;

bool starts_with(std::span<const std::byte> bytes, std::span<const std::byte> signature) {
  return std::equal(signature.begin(), signature.end(), bytes.begin());
}

bool is_webp(std::span<const std::byte> bytes) {
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()), kWebpHeaderBytes);
  return header.starts_with("RIFF") && header.ends_with("WEBP");
}

PictureFile decode(std::span<const std::byte> bytes, std::string_view source) {
  if (starts_with(bytes, kPngSignature)) return decode_png(bytes, source);
  if (starts_with(bytes, kJpegSignature)) return decode_jpeg(bytes, source);
  if (is_webp(bytes)) return decode_webp(bytes, source);
  fail(ErrorCode::invalid_argument, "{}: a PNG, JPEG or WebP picture is expected", source);
}

}  // namespace

RgbImage quantize_image(std::span<const float> values, std::int64_t height, std::int64_t width) {
  expects(height > 0 && width > 0 && values.size() == static_cast<std::size_t>(height * width * 3),
          "{} values for a picture of {} x {}", values.size(), height, width);
  RgbImage image{height, width, {}};
  image.pixels.reserve(values.size());
  for (const float value : values) {
    if (std::isnan(value))
      fail(ErrorCode::corrupt, "the picture is not a number at row {}, column {}",
           static_cast<std::int64_t>(image.pixels.size()) / (3 * width),
           static_cast<std::int64_t>(image.pixels.size()) / 3 % width);
    image.pixels.push_back(static_cast<std::uint8_t>(std::nearbyint(255.0F * std::clamp(value, 0.0F, 1.0F))));
  }
  return image;
}

RgbImage allocate_image(std::int64_t height, std::int64_t width, std::string_view source) {
  if (height < 1 || width < 1)
    fail(ErrorCode::corrupt, "{}: a picture of {} x {} pixels is empty", source, width, height);
  if (width > kMaxPixels / height)
    fail(ErrorCode::invalid_argument, "{}: {} x {} pixels are too many; up to {} are read", source, width, height,
         kMaxPixels);
  return {height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3))};
}

PictureFile read_picture(const std::filesystem::path& file) {
  const std::string content = read_text_file(file);
  return decode_picture(std::as_bytes(std::span(content)), file.string());
}

PictureFile decode_picture(std::span<const std::byte> bytes, std::string_view source) {
  if (bytes.size() < kWebpHeaderBytes)
    fail(ErrorCode::corrupt, "{}: the file ends after {} bytes; a PNG, JPEG or WebP picture is expected", source,
         bytes.size());
  PictureFile picture = decode(bytes, source);
  picture.image = turn_upright(std::move(picture.image), orientation(picture.metadata));
  return picture;
}

}  // namespace lamina
