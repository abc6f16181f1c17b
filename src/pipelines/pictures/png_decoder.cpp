#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "pipelines/pictures/image_decoders.h"
#include "pipelines/pictures/png_guard.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

/// Feeds libpng from memory.
void read_bytes(png_structp png, png_bytep target, std::size_t size_bytes) {
  auto& rest = *static_cast<std::span<const std::byte>*>(png_get_io_ptr(png));
  if (size_bytes > rest.size()) png_error(png, "the file ends early");
  std::memcpy(target, rest.data(), size_bytes);
  rest = rest.subspan(size_bytes);
}

/// tEXt and zTXt hold Latin-1, iTXt holds UTF-8.
PictureText to_utf8(const png_text& text) {
  const bool is_utf8 = text.compression == PNG_ITXT_COMPRESSION_NONE || text.compression == PNG_ITXT_COMPRESSION_zTXt;
  const std::string_view value(text.text, is_utf8 ? text.itxt_length : text.text_length);
  PictureText result{text.key, is_utf8 ? std::string(value) : std::string()};
  if (!is_utf8)
    for (const char character : value) append_utf8(static_cast<unsigned char>(character), result.value);
  return result;
}

/// Owner of libpng's reading structures.
class PngReader {
 public:
  PngReader(std::span<const std::byte> bytes, std::string_view source) : rest_(bytes), source_(source) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure_, png_on_error, png_on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      destroy();
      fail(ErrorCode::out_of_host_memory, "{}: libpng cannot allocate its reader", source_);
    }
    png_set_read_fn(png_, &rest_, read_bytes);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { destroy(); }

  PictureFile read() {
    run([this] { read_header(); });
    RgbImage image = allocate_image(png_get_image_height(png_, info_), png_get_image_width(png_, info_), source_);
    const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
    run([this] { png_read_update_info(png_, info_); });
    expects(png_get_rowbytes(png_, info_) == row_bytes, "{}: libpng gives rows of {} bytes instead of {}", source_,
            png_get_rowbytes(png_, info_), row_bytes);
    std::vector<png_bytep> rows;
    for (std::size_t begin = 0; begin < image.pixels.size(); begin += row_bytes)
      rows.push_back(image.pixels.data() + begin);
    run([this, &rows] {
      png_read_image(png_, rows.data());
      png_read_end(png_, info_);
    });
    return {std::move(image), read_metadata()};
  }

 private:
  void destroy() noexcept { png_destroy_read_struct(&png_, &info_, nullptr); }

  template <typename Calls>
  void run(const Calls& calls) {
    if (!png_guarded(png_, calls))
      fail(ErrorCode::corrupt, "{}: not a valid PNG picture: {}", source_, failure_.message.data());
  }

  /// Asks for 8-bit RGB whatever the file holds.
  void read_header() {
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
  }

  PictureMetadata read_metadata() const {
    constexpr const char* kXmpKey = "XML:com.adobe.xmp";
    PictureMetadata metadata;
    png_bytep exif = nullptr;
    png_uint_32 exif_bytes = 0;
    if (png_get_eXIf_1(png_, info_, &exif_bytes, &exif) != 0)
      metadata.exif.assign(reinterpret_cast<const char*>(exif), exif_bytes);
    png_charp name = nullptr;
    int compression = 0;
    png_bytep profile = nullptr;
    png_uint_32 profile_bytes = 0;
    if (png_get_iCCP(png_, info_, &name, &compression, &profile, &profile_bytes) != 0)
      metadata.icc_profile.assign(reinterpret_cast<const char*>(profile), profile_bytes);
    png_textp texts = nullptr;
    const int count = png_get_text(png_, info_, &texts, nullptr);
    for (const png_text& text : std::span(texts, static_cast<std::size_t>(count))) {
      metadata.texts.push_back(to_utf8(text));
      if (metadata.texts.back().key == kXmpKey) metadata.xmp = metadata.texts.back().value;
    }
    return metadata;
  }

  std::span<const std::byte> rest_;
  std::string_view source_;
  PngFailure failure_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

PictureFile decode_png(std::span<const std::byte> bytes, std::string_view source) {
  return PngReader(bytes, source).read();
}

}  // namespace lamina
