#include "pipelines/pictures/picture_metadata.h"

#include <array>
#include <cstddef>

#include "pipelines/pictures/exif.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

constexpr std::uint32_t kUpright = 1;
constexpr std::uint32_t kLastOrientation = 8;

/// The digit behind tiff:Orientation=" or <tiff:Orientation>.
std::optional<std::uint32_t> xmp_orientation(std::string_view xmp) {
  for (const std::string_view key : {"tiff:Orientation=\"", "tiff:Orientation>"}) {
    const std::size_t found = xmp.find(key);
    if (found == std::string_view::npos || found + key.size() >= xmp.size()) continue;
    const char digit = xmp[found + key.size()];
    if (digit >= '0' && digit <= '9') return static_cast<std::uint32_t>(digit - '0');
  }
  return std::nullopt;
}

std::uint32_t big_endian(std::string_view bytes, std::size_t offset, std::size_t size_bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size_bytes && offset + i < bytes.size(); ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return value;
}

/// A part of `bytes`, empty where it does not lie within.
std::string_view part(std::string_view bytes, std::size_t offset, std::size_t size_bytes) {
  if (size_bytes > bytes.size() || offset > bytes.size() - size_bytes) return {};
  return bytes.substr(offset, size_bytes);
}

/// Printable ASCII; what else a description holds becomes '?'.
std::string to_ascii(std::string_view text, std::size_t bytes_per_character) {
  std::string ascii;
  for (std::size_t i = 0; i + bytes_per_character <= text.size(); i += bytes_per_character) {
    const std::uint32_t character = big_endian(text, i, bytes_per_character);
    if (character == 0) break;
    ascii += character >= 0x20 && character < 0x7F ? static_cast<char>(character) : '?';
  }
  return ascii;
}

/// The text of a profile's tag 'desc': of type 'desc' (version 2) or 'mluc' (version 4, its first language).
/// Source: ICC.1:2001-04, section 6.5.17, and ICC.1:2022, section 10.15.
std::string describe(std::string_view tag) {
  constexpr std::size_t kShown = 60;
  std::string text;
  if (tag.starts_with("desc")) text = to_ascii(part(tag, 12, big_endian(tag, 8, 4)), 1);
  if (tag.starts_with("mluc")) text = to_ascii(part(tag, big_endian(tag, 24, 4), big_endian(tag, 20, 4)), 2);
  return text.substr(0, kShown);
}

std::string profile_description(std::string_view profile) {
  constexpr std::size_t kHeaderBytes = 128;
  constexpr std::size_t kEntryBytes = 12;
  constexpr std::uint32_t kMostTags = 1000;
  const std::uint32_t count = big_endian(profile, kHeaderBytes, 4);
  for (std::size_t i = 0; i < count && i < kMostTags; ++i) {
    const std::string_view entry = part(profile, kHeaderBytes + 4 + i * kEntryBytes, kEntryBytes);
    if (entry.starts_with("desc")) return describe(part(profile, big_endian(entry, 4, 4), big_endian(entry, 8, 4)));
  }
  return "";
}

}  // namespace

int orientation(const PictureMetadata& metadata) {
  std::optional<std::uint32_t> found = exif_number(metadata.exif, ExifTag::orientation);
  if (!found) found = xmp_orientation(metadata.xmp);
  return found && *found >= kUpright && *found <= kLastOrientation ? static_cast<int>(*found) : 1;
}

std::optional<std::string> foreign_colour_profile(std::string_view icc_profile) {
  if (icc_profile.empty()) return std::nullopt;
  const std::string name = profile_description(icc_profile);
  if (name.find("sRGB") != std::string::npos) return std::nullopt;
  return name.empty() ? "unnamed" : name;
}

}  // namespace lamina
