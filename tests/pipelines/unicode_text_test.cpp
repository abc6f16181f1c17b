#include "pipelines/unicode_text.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lamina {
namespace {

TEST(UnicodeText, ClassifiesAsThePatternDoes) {
  EXPECT_EQ(classify(U'\r'), CharacterClass::line_break);
  EXPECT_EQ(classify(U'\n'), CharacterClass::line_break);
  for (const char32_t space : {U' ', U'\t', U'\v', U'\f', U'\u0085', U'\u00A0', U'\u2028', U'\u3000'})
    EXPECT_EQ(classify(space), CharacterClass::space) << static_cast<std::uint32_t>(space);
  for (const char32_t letter : {U'a', U'\u00C9', U'\u6F22', U'\u02BC', U'\U00010400'})
    EXPECT_EQ(classify(letter), CharacterClass::letter) << static_cast<std::uint32_t>(letter);
  for (const char32_t number : {U'7', U'\u0663', U'\u2167', U'\u00BD'})
    EXPECT_EQ(classify(number), CharacterClass::number) << static_cast<std::uint32_t>(number);
  for (const char32_t other : {U'\'', U'\u200B', U'\u0301', U'\u180E', U'\U0001F600', U'\0'})
    EXPECT_EQ(classify(other), CharacterClass::other) << static_cast<std::uint32_t>(other);
}

TEST(UnicodeText, NormalizesToNfc) {
  EXPECT_EQ(normalize_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(normalize_nfc("\u1112\u1161\u11AB \u212A \uFB01"), "\uD55C K \uFB01");
  EXPECT_EQ(normalize_nfc(""), "");
}

TEST(UnicodeText, NamesTheFirstIllFormedByte) {
  const auto offset_of = [](std::string_view text, const char* offset) {
    testing::expect_error(ErrorCode::invalid_argument, {"the title is not valid UTF-8", offset},
                          [&] { require_utf8(text, "the title"); });
  };
  offset_of("\x80", "at byte 0");
  offset_of("ab\xC3", "at byte 2");
  offset_of("\u00E9\xED\xA0\x80", "at byte 2");  // a surrogate
  offset_of("x\xC0\xAF", "at byte 1");           // an overlong slash
  offset_of("xy\xF4\x90\x80\x80", "at byte 2");  // beyond U+10FFFF
  require_utf8("\U0010FFFF\uFFFD\uD7FF", "the title");
}

TEST(UnicodeText, DecodesAndEncodes) {
  const std::string text = "a\u00E9\u6F22\U0001F600";
  const std::u32string characters = decode_utf8(text);
  EXPECT_EQ(characters, U"a\u00E9\u6F22\U0001F600");
  std::string back;
  for (const char32_t character : characters) append_utf8(character, back);
  EXPECT_EQ(back, text);
}

}  // namespace
}  // namespace lamina
