#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// A key and a value in UTF-8 that a picture's file carries.
struct PictureText {
  std::string key;  ///< 1 to 79 printable ASCII characters
  std::string value;

  bool operator==(const PictureText&) const = default;
};

/// What a picture's file stores beside the pixels, byte for byte; what it lacks is empty.
struct PictureMetadata {
  std::string exif;  ///< a TIFF structure, from its byte order on
  std::string xmp;
  std::string icc_profile;
  std::vector<PictureText> texts;  ///< a PNG's, in UTF-8
};

/// How the stored pixels have to be turned, 1 (not at all) to 8, as EXIF counts: from EXIF, else from XMP, as Pillow's
/// `ImageOps.exif_transpose` decides. What is damaged counts as missing.
int orientation(const PictureMetadata& metadata);

/// The profile's description, such as "Display P3"; "unnamed" where it cannot be read. Nothing without a profile, and
/// for one of sRGB, which is what pixels are taken as anyway.
std::optional<std::string> foreign_colour_profile(std::string_view icc_profile);

}  // namespace lamina
