#include "cli/prompt_file.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

/// Takes the first line off the text.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  text.remove_prefix(line.size());
  text.remove_prefix(text.starts_with("\r\n") ? 2 : std::min<std::size_t>(text.size(), 1));
  return line;
}

bool is_blank(std::string_view line) {
  return std::ranges::all_of(decode_utf8(line),
                             [](char32_t character) { return classify(character) == CharacterClass::space; });
}

}  // namespace

std::vector<std::string> read_prompt_file(const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string content = read_text_file(file);
  std::string_view text = content;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> prompts;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    const std::string place = fmt::format("--prompts {}: line {}", file, number);
    if (line.find('\0') != std::string_view::npos) fail(ErrorCode::invalid_argument, "{} holds a zero byte", place);
    require_utf8(line, place);
    if (!is_blank(line)) prompts.emplace_back(line);
  }
  if (prompts.empty()) fail(ErrorCode::invalid_argument, "--prompts {}: the file has no prompt", file);
  return prompts;
}

}  // namespace lamina
