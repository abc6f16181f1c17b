#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lamina {

/// What the pre-tokeniser's pattern tells apart. Line breaks are CR and LF; the other classes are Unicode's White_Space
/// property and the general categories L and N.
enum class CharacterClass : std::uint8_t { line_break, space, letter, number, other };

CharacterClass classify(char32_t character) noexcept;

/// Throws invalid_argument naming the byte offset of the first ill-formed UTF-8 sequence; `what` says whose text it is.
void require_utf8(std::string_view text, std::string_view what);

/// Unicode Normalization Form C. `text` is valid UTF-8.
std::string normalize_nfc(std::string_view text);

/// `text` is valid UTF-8.
std::u32string decode_utf8(std::string_view text);

void append_utf8(char32_t character, std::string& text);

}  // namespace lamina
