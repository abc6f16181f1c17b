#include "pipelines/unicode_text.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <limits>

#include "base/error.h"

namespace lamina {
namespace {

/// ICU's offsets into UTF-8 text are 32 bits wide.
std::int32_t icu_length(std::string_view text) {
  if (text.size() > std::numeric_limits<std::int32_t>::max())
    fail(ErrorCode::invalid_argument, "a text of {} bytes is too long; 2 GiB is the limit", text.size());
  return static_cast<std::int32_t>(text.size());
}

}  // namespace

CharacterClass classify(char32_t character) noexcept {
  if (character == U'\r' || character == U'\n') return CharacterClass::line_break;
  const auto code_point = static_cast<UChar32>(character);
  if (u_isUWhiteSpace(code_point)) return CharacterClass::space;
  const std::uint32_t category = U_GET_GC_MASK(code_point);
  if ((category & U_GC_L_MASK) != 0) return CharacterClass::letter;
  if ((category & U_GC_N_MASK) != 0) return CharacterClass::number;
  return CharacterClass::other;
}

void require_utf8(std::string_view text, std::string_view what) {
  const std::int32_t length = icu_length(text);
  for (std::int32_t offset = 0; offset < length;) {
    const std::int32_t start = offset;
    UChar32 code_point = 0;
    U8_NEXT(text.data(), offset, length, code_point);
    if (code_point < 0) fail(ErrorCode::invalid_argument, "{} is not valid UTF-8 at byte {}", what, start);
  }
}

namespace {

void check_normalizer(UErrorCode status) {
  if (U_FAILURE(status)) fail(ErrorCode::unavailable, "ICU cannot normalise a text to NFC: {}", u_errorName(status));
}

/// ICU's own, for all threads. Kept, so that threads meet here and not inside the library, where ThreadSanitizer does
/// not see them.
const icu::Normalizer2& nfc_normalizer() {
  static const icu::Normalizer2* const normalizer = [] {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* instance = icu::Normalizer2::getNFCInstance(status);
    check_normalizer(status);
    return instance;
  }();
  return *normalizer;
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized);
  UErrorCode status = U_ZERO_ERROR;
  nfc_normalizer().normalizeUTF8(0, icu::StringPiece(text.data(), icu_length(text)), sink, nullptr, status);
  check_normalizer(status);
  return normalized;
}

std::u32string decode_utf8(std::string_view text) {
  const std::int32_t length = icu_length(text);
  std::u32string characters;
  characters.reserve(text.size());
  for (std::int32_t offset = 0; offset < length;) {
    UChar32 code_point = 0;
    U8_NEXT_UNSAFE(text.data(), offset, code_point);
    characters.push_back(static_cast<char32_t>(code_point));
  }
  return characters;
}

void append_utf8(char32_t character, std::string& text) {
  char buffer[U8_MAX_LENGTH];
  std::int32_t length = 0;
  U8_APPEND_UNSAFE(buffer, length, character);
  text.append(buffer, static_cast<std::size_t>(length));
}

}  // namespace lamina
