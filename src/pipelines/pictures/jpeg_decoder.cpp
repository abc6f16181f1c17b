// jpeglib.h needs <cstdio> before it, and decides which messages jerror.h counts.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <array>
#include <csetjmp>

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

  RgbImage read() {
    run([this] { read_header(); });
    if (codec_.jpeg_color_space == JCS_CMYK || codec_.jpeg_color_space == JCS_YCCK)
      fail(ErrorCode::not_implemented, "{}: a JPEG in four colours (CMYK); convert it to RGB", source_);
    RgbImage image = allocate_image(codec_.image_height, codec_.image_width, source_);
    run([this, &image] { read_rows(image); });
    return image;
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
    if (!guarded(calls)) fail(ErrorCode::corrupt, "{}: not a valid JPEG picture: {}", source_, handler_.message.data());
  }

  void read_header() {
    jpeg_create_decompress(&codec_);
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&codec_, TRUE);
    codec_.out_color_space = JCS_RGB;
  }

  void read_rows(RgbImage& image) {
    jpeg_start_decompress(&codec_);
    while (codec_.output_scanline < codec_.output_height) {
      JSAMPROW row = image.pixels.data() + static_cast<std::size_t>(codec_.output_scanline) * codec_.output_width * 3;
      jpeg_read_scanlines(&codec_, &row, 1);
    }
    jpeg_finish_decompress(&codec_);
  }

  std::span<const std::byte> bytes_;
  std::string_view source_;
  ErrorHandler handler_;
  jpeg_decompress_struct codec_{};
};

}  // namespace

RgbImage decode_jpeg(std::span<const std::byte> bytes, std::string_view source) {
  return JpegReader(bytes, source).read();
}

}  // namespace lamina
