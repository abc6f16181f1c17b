#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace lamina {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Bytes of the well-formed UTF-8 sequence that begins the text, or 0. Overlong forms, surrogates and values beyond
/// Unicode are none. Source: The Unicode Standard, table 3-7.
std::size_t sequence_bytes(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  const unsigned char second = byte_at(text, 1);
  const auto continues = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      if ((byte_at(text, i) & 0xC0) != 0x80) return false;
    return true;
  };
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1, 2) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool legal = (first != 0xE0 || second >= 0xA0) && (first != 0xED || second < 0xA0);
    return legal && continues(1, 3) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool legal = (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second < 0x90);
    return legal && continues(1, 4) ? 4 : 0;
  }
  return 0;
}

/// C0 but line breaks and tabs, DEL, and C1.
bool is_control(std::string_view sequence) {
  const unsigned char first = byte_at(sequence, 0);
  if (sequence.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  return first == 0xC2 && byte_at(sequence, 1) < 0xA0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most_bytes) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size() && at < most_bytes) {
    const std::size_t size = sequence_bytes(text.substr(at));
    const std::string_view sequence = text.substr(at, std::max(size, std::size_t{1}));
    if (size == 0 || is_control(sequence))
      result += '?';
    else
      result += sequence;
    at += sequence.size();
  }
  if (at < text.size()) result += fmt::format("... ({} more bytes)", text.size() - at);
  return result;
}

}  // namespace lamina
