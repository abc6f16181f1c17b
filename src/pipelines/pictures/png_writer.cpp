#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "pipelines/pictures/image.h"
#include "pipelines/pictures/png_guard.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

/// The text in Latin-1, or nullopt where it holds a character that a tEXt chunk must not.
std::optional<std::string> to_latin1(std::string_view utf8) {
  std::string latin1;
  for (const char32_t character : decode_utf8(utf8)) {
    const bool is_printable = (character >= 0x20 && character < 0x7F) || (character >= 0xA0 && character <= 0xFF);
    if (!is_printable && character != U'\n') return std::nullopt;
    latin1.push_back(static_cast<char>(static_cast<unsigned char>(character)));
  }
  return latin1;
}

/// Texts as libpng takes them, with the bytes they point to.
class TextChunks {
 public:
  explicit TextChunks(const std::vector<PictureText>& texts) : storage_(texts) {
    for (PictureText& text : storage_) chunks_.push_back(describe(text));
  }

  const std::vector<png_text>& chunks() const noexcept { return chunks_; }

 private:
  static png_text describe(PictureText& text) {
    expects(!text.key.empty() && text.key.size() < PNG_KEYWORD_MAX_LENGTH + 1 &&
                std::all_of(text.key.begin(), text.key.end(), [](char c) { return c > ' ' && c < 0x7F; }),
            "'{}' is no key of a PNG text", text.key);
    require_utf8(text.value, "PNG text " + text.key);
    if (text.value.find('\0') != std::string::npos)
      fail(ErrorCode::invalid_argument, "PNG text {} holds a zero byte", text.key);
    png_text chunk{};
    chunk.compression = PNG_ITXT_COMPRESSION_NONE;
    if (std::optional<std::string> latin1 = to_latin1(text.value)) {
      chunk.compression = PNG_TEXT_COMPRESSION_NONE;
      text.value = *std::move(latin1);
    }
    chunk.key = text.key.data();
    chunk.text = text.value.data();
    return chunk;
  }

  std::vector<PictureText> storage_;
  std::vector<png_text> chunks_;
};

bool append(std::vector<std::byte>& bytes, const png_byte* data, std::size_t size_bytes) noexcept {
  try {
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size_bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void write_bytes(png_structp png, png_bytep data, std::size_t size_bytes) {
  if (!append(*static_cast<std::vector<std::byte>*>(png_get_io_ptr(png)), data, size_bytes))
    png_error(png, "out of memory");
}

/// Everything is in memory already.
void flush_bytes(png_structp) {}

/// Owner of libpng's writing structures.
class PngEncoder {
 public:
  PngEncoder() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &failure_, png_on_error, png_on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      destroy();
      fail(ErrorCode::out_of_host_memory, "libpng cannot allocate its writer");
    }
    png_set_write_fn(png_, &bytes_, write_bytes, flush_bytes);
  }
  PngEncoder(const PngEncoder&) = delete;
  PngEncoder& operator=(const PngEncoder&) = delete;
  ~PngEncoder() { destroy(); }

  std::vector<std::byte> encode(const RgbImage& image, const std::vector<PictureText>& texts) {
    const TextChunks chunks(texts);
    if (!png_guarded(png_, [&] { write(image, chunks.chunks()); }))
      fail(ErrorCode::internal, "libpng cannot encode a picture of {} x {}: {}", image.width, image.height,
           failure_.message.data());
    return std::move(bytes_);
  }

 private:
  void destroy() noexcept { png_destroy_write_struct(&png_, &info_); }

  void write(const RgbImage& image, const std::vector<png_text>& texts) {
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
                 PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_text(png_, info_, texts.data(), static_cast<int>(texts.size()));
    png_write_info(png_, info_);
    for (std::int64_t row = 0; row < image.height; ++row)
      png_write_row(png_, image.pixels.data() + row * image.width * 3);
    png_write_end(png_, nullptr);
  }

  PngFailure failure_;
  std::vector<std::byte> bytes_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::vector<std::byte> encode_png(const RgbImage& image, const std::vector<PictureText>& texts) {
  expects(image.pixels.size() == static_cast<std::size_t>(image.height * image.width * 3),
          "a picture of {} x {} with {} values", image.height, image.width, image.pixels.size());
  return PngEncoder().encode(image, texts);
}

void write_png(AtomicFile file, const RgbImage& image, const std::vector<PictureText>& texts) {
  file.write(encode_png(image, texts));
  file.commit();
}

}  // namespace lamina
