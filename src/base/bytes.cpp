#include "base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 10> kUnits{{{"", 1.0},
                                                                      {"B", 1.0},
                                                                      {"KB", 1e3},
                                                                      {"MB", 1e6},
                                                                      {"GB", 1e9},
                                                                      {"TB", 1e12},
                                                                      {"KiB", 0x1p10},
                                                                      {"MiB", 0x1p20},
                                                                      {"GiB", 0x1p30},
                                                                      {"TiB", 0x1p40}}};

}  // namespace

std::size_t parse_size(std::string_view text, std::string_view what) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (status != std::errc{} || unit != name || !(number >= 0)) continue;
    const double size = std::round(number * factor);
    if (size < 0x1p63) return static_cast<std::size_t>(size);
  }
  fail(ErrorCode::invalid_argument,
       "{}: '{}' is not a size; write bytes or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB", what, text);
}

std::string format_size(std::size_t size_bytes) {
  if (size_bytes < kKiB) return fmt::format("{} B", size_bytes);
  const double size = static_cast<double>(size_bytes);
  if (size_bytes < kMiB) return fmt::format("{:.1f} KiB", size / 0x1p10);
  if (size_bytes < kGiB) return fmt::format("{:.1f} MiB", size / 0x1p20);
  return fmt::format("{:.2f} GiB", size / 0x1p30);
}

std::optional<std::size_t> checked_mul(std::size_t a, std::size_t b) {
  if (a != 0 && b > std::numeric_limits<std::size_t>::max() / a) return std::nullopt;
  return a * b;
}

std::optional<std::size_t> checked_add(std::size_t a, std::size_t b) {
  if (b > std::numeric_limits<std::size_t>::max() - a) return std::nullopt;
  return a + b;
}

}  // namespace lamina
