#include "pipelines/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

/// Where the pattern's alternatives match. Each function returns the end of a match at `begin`, or `begin` for none,
/// and is named after the alternative it stands for.
class PatternMatcher {
 public:
  explicit PatternMatcher(const std::u32string& text) : text_(text), classes_(text.size()) {
    std::transform(text.begin(), text.end(), classes_.begin(), classify);
  }

  /// The end of the piece at `begin`. What the first four alternatives leave is white space.
  std::size_t match(std::size_t begin) const {
    for (const auto alternative :
         {&PatternMatcher::contraction, &PatternMatcher::word, &PatternMatcher::number, &PatternMatcher::symbols}) {
      const std::size_t end = (this->*alternative)(begin);
      if (end > begin) return end;
    }
    return white_space(begin);
  }

 private:
  using Class = CharacterClass;

  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)
  std::size_t contraction(std::size_t begin) const {
    static constexpr std::array<std::u32string_view, 7> kEndings = {U"s", U"t", U"re", U"ve", U"m", U"ll", U"d"};
    if (text_[begin] != U'\'') return begin;
    for (const std::u32string_view ending : kEndings) {
      const std::u32string_view found = std::u32string_view(text_).substr(begin + 1, ending.size());
      if (std::equal(found.begin(), found.end(), ending.begin(), ending.end(), folds_to))
        return begin + 1 + ending.size();
    }
    return begin;
  }

  /// Simple case folding onto an ASCII letter; the long s is the one letter outside of ASCII that folds onto these.
  static bool folds_to(char32_t character, char32_t lower_case) {
    return character == lower_case || character + (U'a' - U'A') == lower_case ||
           (character == U'\u017F' && lower_case == U's');
  }

  /// [^\r\n\p{L}\p{N}]?\p{L}+
  std::size_t word(std::size_t begin) const {
    const bool has_prefix = is(begin, Class::space) || is(begin, Class::other);
    const std::size_t letters = begin + (has_prefix ? 1 : 0);
    const std::size_t end = skip(letters, Class::letter);
    return end > letters ? end : begin;
  }

  /// \p{N}
  std::size_t number(std::size_t begin) const { return begin + (is(begin, Class::number) ? 1 : 0); }

  ///  ?[^\s\p{L}\p{N}]+[\r\n]*
  std::size_t symbols(std::size_t begin) const {
    const std::size_t symbols_begin = begin + (text_[begin] == U' ' ? 1 : 0);
    const std::size_t end = skip(symbols_begin, Class::other);
    return end > symbols_begin ? skip(end, Class::line_break) : begin;
  }

  /// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line break of the run; without one, all but the last character, which
  /// goes to what follows; at the end of the text, or for a single character, the whole run.
  std::size_t white_space(std::size_t begin) const {
    std::size_t end = begin;
    std::size_t behind_line_break = begin;
    for (; is(end, Class::space) || is(end, Class::line_break); ++end)
      if (classes_[end] == Class::line_break) behind_line_break = end + 1;
    if (behind_line_break > begin) return behind_line_break;
    return end < text_.size() && end > begin + 1 ? end - 1 : end;
  }

  bool is(std::size_t position, Class expected) const {
    return position < classes_.size() && classes_[position] == expected;
  }

  std::size_t skip(std::size_t position, Class skipped) const {
    while (is(position, skipped)) ++position;
    return position;
  }

  const std::u32string& text_;
  std::vector<Class> classes_;
};

}  // namespace

std::vector<std::string> pre_tokenize(std::string_view text) {
  const std::u32string characters = decode_utf8(text);
  const PatternMatcher matcher(characters);
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < characters.size();) {
    const std::size_t end = matcher.match(begin);
    std::string& piece = pieces.emplace_back();
    for (; begin < end; ++begin) append_utf8(characters[begin], piece);
  }
  return pieces;
}

}  // namespace lamina
