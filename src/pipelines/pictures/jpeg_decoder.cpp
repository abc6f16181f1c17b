// jpeglib.h needs <cstdio> before it, and decides which messages jerror.h counts.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "pipelines/pictures/image_decoders.h"

namespace lamina {
namespace {

/// libjpeg's error handler with what ours needs; libjpeg hands back the pointer to its first member.
struct ErrorHandler {
  jpeg_error_mgr library{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

[[noreturn]] void give_up(j_common_ptr codec) {
  auto& handler = *reinterpret_cast<ErrorHandler*>(codec->err);
  codec->err->format_message(codec, handler.message.data());
  std::longjmp(handler.jump, 1);
}

/// libjpeg warns and invents pixels where the compressed data is damaged; for us that is an error. Its other warnings
/// do not touch the pixels.
void judge_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  switch (codec->err->msg_code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC: give_up(codec);
    default: return;
  }
}

constexpr int kInks = 4;
constexpr int kExifMarker = JPEG_APP0 + 1;  ///< and XMP's
constexpr int kProfileMarker = JPEG_APP0 + 2;
constexpr unsigned int kMarkerBytes = 0xFFFF;

/// a * b / 255, rounded.
std::uint8_t scale(int a, int b) {
  const int product = a * b + 128;
  return static_cast<std::uint8_t>((product / 256 + product) / 256);
}

/// Cyan, magenta, yellow and black, stored inverted as Adobe does, to red, green and blue.
/// Source: Pillow, src/libImaging/Convert.c, cmyk2rgb.
void mix_inks(const std::uint8_t* inks, std::uint8_t* rgb) {
  const int light = inks[3];
  for (int channel = 0; channel < 3; ++channel)
    rgb[channel] = static_cast<std::uint8_t>(light - scale(255 - inks[channel], light));
}

/// Owner of libjpeg's decompressor.
class JpegReader {
 public:
  JpegReader(std::span<const std::byte> bytes, std::string_view source) : bytes_(bytes), source_(source) {
    codec_.err = jpeg_std_error(&handler_.library);
    handler_.library.error_exit = give_up;
    handler_.library.emit_message = judge_message;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&codec_); }

  PictureFile read() {
    run([this] { read_header(); });
    PictureFile picture{allocate_image(codec_.image_height, codec_.image_width, source_), read_metadata()};
    if (codec_.out_color_space == JCS_CMYK) {
      std::vector<JSAMPLE> row(static_cast<std::size_t>(picture.image.width) * kInks);
      run([&] { read_inks(row, picture.image); });
    } else {
      run([&] { read_rows(picture.image); });
    }
    return picture;
  }

 private:
  /// `calls` must not own anything: it may be left by a jump.
  template <typename Calls>
  bool guarded(const Calls& calls) {
    if (setjmp(handler_.jump) != 0) return false;
    calls();
    return true;
  }

  template <typename Calls>
  void run(const Calls& calls) {
    if (guarded(calls)) return;
    if (handler_.library.msg_code == JWRN_JPEG_EOF)
      fail(ErrorCode::corrupt, "{}: the JPEG picture is cut short; a viewer may show what is there and save it anew",
           source_);
    fail(ErrorCode::corrupt, "{}: not a valid JPEG picture: {}", source_, handler_.message.data());
  }

  void read_header() {
    jpeg_create_decompress(&codec_);
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_save_markers(&codec_, kExifMarker, kMarkerBytes);
    jpeg_save_markers(&codec_, kProfileMarker, kMarkerBytes);
    jpeg_read_header(&codec_, TRUE);
    codec_.out_color_space = codec_.num_components == kInks ? JCS_CMYK : JCS_RGB;
  }

  void read_rows(RgbImage& image) {
    jpeg_start_decompress(&codec_);
    while (codec_.output_scanline < codec_.output_height) {
      JSAMPROW row = row_of(image);
      jpeg_read_scanlines(&codec_, &row, 1);
    }
    jpeg_finish_decompress(&codec_);
  }

  /// `buffer` takes a row of four inks.
  void read_inks(std::vector<JSAMPLE>& buffer, RgbImage& image) {
    jpeg_start_decompress(&codec_);
    while (codec_.output_scanline < codec_.output_height) {
      std::uint8_t* rgb = row_of(image);
      JSAMPROW row = buffer.data();
      jpeg_read_scanlines(&codec_, &row, 1);
      for (std::size_t pixel = 0; pixel < codec_.output_width; ++pixel) mix_inks(row + pixel * kInks, rgb + pixel * 3);
    }
    jpeg_finish_decompress(&codec_);
  }

  std::uint8_t* row_of(RgbImage& image) const {
    return image.pixels.data() + static_cast<std::size_t>(codec_.output_scanline) * codec_.output_width * 3;
  }

  /// A profile lies in several markers, each with its number and their count behind the signature.
  PictureMetadata read_metadata() const {
    constexpr std::string_view kExif{"Exif\0\0", 6};
    constexpr std::string_view kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};
    constexpr std::string_view kProfile{"ICC_PROFILE\0", 12};
    constexpr std::size_t kNumberAndCount = 2;
    PictureMetadata metadata;
    std::map<unsigned char, std::string_view> profile_parts;
    for (jpeg_saved_marker_ptr marker = codec_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view content(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (content.starts_with(kExif) && metadata.exif.empty()) metadata.exif = content.substr(kExif.size());
      if (content.starts_with(kXmp)) metadata.xmp = content.substr(kXmp.size());
      if (content.starts_with(kProfile) && content.size() >= kProfile.size() + kNumberAndCount)
        profile_parts.emplace(content[kProfile.size()], content.substr(kProfile.size() + kNumberAndCount));
    }
    for (const auto& [number, part] : profile_parts) metadata.icc_profile += part;
    return metadata;
  }

  std::span<const std::byte> bytes_;
  std::string_view source_;
  ErrorHandler handler_;
  jpeg_decompress_struct codec_{};
};

}  // namespace

PictureFile decode_jpeg(std::span<const std::byte> bytes, std::string_view source) {
  return JpegReader(bytes, source).read();
}

}  // namespace lamina
