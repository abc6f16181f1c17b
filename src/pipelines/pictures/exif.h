#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lamina {

/// Tags of EXIF's first directory.
enum class ExifTag : std::uint16_t { image_description = 0x010E, orientation = 0x0112, software = 0x0131 };

/// The number or text of a tag in `exif`, a TIFF structure from its byte order on. Nothing where the tag is missing, of
/// another type, or damaged: readers of pictures do not fail over these.
std::optional<std::uint32_t> exif_number(std::string_view exif, ExifTag tag);
std::optional<std::string> exif_text(std::string_view exif, ExifTag tag);

/// EXIF of these two texts, in UTF-8.
std::string make_exif(std::string_view image_description, std::string_view software);

}  // namespace lamina
