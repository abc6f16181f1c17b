#include "pipelines/pictures/exif.h"

#include <cstddef>

namespace lamina {
namespace {

// Field types of TIFF.
constexpr std::uint32_t kByte = 1;
constexpr std::uint32_t kAscii = 2;
constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;

constexpr std::size_t kEntryBytes = 12;
constexpr std::size_t kInlineBytes = 4;  ///< longer values stand elsewhere

/// Numbers of a TIFF structure. Reading behind its end gives nothing.
class TiffReader {
 public:
  explicit TiffReader(std::string_view bytes) : bytes_(bytes), is_big_endian_(bytes.starts_with("MM")) {}

  bool is_tiff() const {
    return (bytes_.starts_with("MM") || bytes_.starts_with("II")) && number(2, 2) == std::uint32_t{42};
  }

  std::optional<std::uint32_t> number(std::size_t offset, std::size_t size_bytes) const {
    if (size_bytes > bytes_.size() || offset > bytes_.size() - size_bytes) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size_bytes; ++i) {
      const std::size_t at = is_big_endian_ ? offset + i : offset + size_bytes - 1 - i;
      value = value << 8 | static_cast<unsigned char>(bytes_[at]);
    }
    return value;
  }

  std::optional<std::string_view> text(std::size_t offset, std::size_t size_bytes) const {
    if (size_bytes > bytes_.size() || offset > bytes_.size() - size_bytes) return std::nullopt;
    return bytes_.substr(offset, size_bytes);
  }

  /// Where the tag's entry stands in the first directory.
  std::optional<std::size_t> find(ExifTag tag) const {
    if (!is_tiff()) return std::nullopt;
    const std::optional<std::uint32_t> directory = number(4, 4);
    const std::optional<std::uint32_t> count = directory ? number(*directory, 2) : std::nullopt;
    for (std::size_t i = 0; count && i < *count; ++i) {
      const std::size_t entry = *directory + 2 + i * kEntryBytes;
      const std::optional<std::uint32_t> found = number(entry, 2);
      if (!found) break;
      if (*found == static_cast<std::uint32_t>(tag)) return entry;
    }
    return std::nullopt;
  }

 private:
  std::string_view bytes_;
  bool is_big_endian_;
};

/// Writes little-endian TIFF.
class TiffWriter {
 public:
  void number(std::uint32_t value, std::size_t size_bytes) {
    for (std::size_t i = 0; i < size_bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }

  /// The text's entry; its characters and a zero byte stand at `offset` unless they fit the entry.
  void ascii_entry(ExifTag tag, std::string_view text, std::size_t offset) {
    number(static_cast<std::uint32_t>(tag), 2);
    number(kAscii, 2);
    number(static_cast<std::uint32_t>(text.size() + 1), 4);
    if (text.size() + 1 > kInlineBytes) return number(static_cast<std::uint32_t>(offset), 4);
    bytes_ += text;
    bytes_.append(kInlineBytes - text.size(), '\0');
  }

  void ascii(std::string_view text) {
    if (text.size() + 1 <= kInlineBytes) return;
    bytes_ += text;
    bytes_ += '\0';
  }

  std::string bytes_;
};

}  // namespace

std::optional<std::uint32_t> exif_number(std::string_view exif, ExifTag tag) {
  const TiffReader reader(exif);
  const std::optional<std::size_t> entry = reader.find(tag);
  if (!entry || reader.number(*entry + 4, 4) != std::uint32_t{1}) return std::nullopt;
  switch (reader.number(*entry + 2, 2).value_or(0)) {
    case kByte: return reader.number(*entry + 8, 1);
    case kShort: return reader.number(*entry + 8, 2);
    case kLong: return reader.number(*entry + 8, 4);
    default: return std::nullopt;
  }
}

std::optional<std::string> exif_text(std::string_view exif, ExifTag tag) {
  const TiffReader reader(exif);
  const std::optional<std::size_t> entry = reader.find(tag);
  if (!entry || reader.number(*entry + 2, 2) != kAscii) return std::nullopt;
  const std::uint32_t size = reader.number(*entry + 4, 4).value_or(0);
  const std::optional<std::uint32_t> offset =
      size <= kInlineBytes ? static_cast<std::uint32_t>(*entry + 8) : reader.number(*entry + 8, 4);
  const std::optional<std::string_view> text = offset ? reader.text(*offset, size) : std::nullopt;
  if (!text) return std::nullopt;
  return std::string(text->substr(0, text->find('\0')));
}

std::string make_exif(std::string_view image_description, std::string_view software) {
  constexpr std::size_t kHeaderBytes = 8;
  constexpr std::size_t kTexts = kHeaderBytes + 2 + 2 * kEntryBytes + 4;
  TiffWriter writer;
  writer.bytes_ = "II";
  writer.number(42, 2);
  writer.number(kHeaderBytes, 4);
  writer.number(2, 2);
  const std::size_t second =
      image_description.size() + 1 > kInlineBytes ? kTexts + image_description.size() + 1 : kTexts;
  writer.ascii_entry(ExifTag::image_description, image_description, kTexts);
  writer.ascii_entry(ExifTag::software, software, second);
  writer.number(0, 4);  // no further directory
  writer.ascii(image_description);
  writer.ascii(software);
  return writer.bytes_;
}

}  // namespace lamina
