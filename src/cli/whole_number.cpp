#include "cli/whole_number.h"

#include <charconv>
#include <cstdint>
#include <string_view>

namespace lamina {
namespace {

template <typename Number>
bool is_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && std::to_string(number) == text;
}

std::string verdict(bool is_right, std::string_view kind, const std::string& text) {
  return is_right ? std::string() : std::string(kind) + " in plain decimal digits is expected, found '" + text + "'";
}

}  // namespace

std::string check_whole_number(const std::string& text) {
  return verdict(is_number<std::int64_t>(text), "a whole number", text);
}

std::string check_natural_number(const std::string& text) {
  return verdict(is_number<std::uint64_t>(text), "a whole number from 0 up", text);
}

}  // namespace lamina
