#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lamina {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

/// Parses "4096", "13MiB", "1.5GiB", "2GB" (powers of ten for KB, MB, GB, TB; powers of two for KiB, MiB, GiB, TiB).
/// The result is rounded to the nearest whole byte. Throws invalid_argument naming `what` (a flag or field).
std::size_t parse_size(std::string_view text, std::string_view what);

/// "13.4 MiB", "512 B": three or four significant digits, binary units.
std::string format_size(std::size_t size_bytes);

/// `value` rounded up to a multiple of `alignment` (a power of two). The caller ensures that it fits.
constexpr std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

/// `value / divisor`, rounded up.
constexpr std::size_t divide_up(std::size_t value, std::size_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

/// a * b and a + b, or nullopt where the result does not fit.
std::optional<std::size_t> checked_mul(std::size_t a, std::size_t b);
std::optional<std::size_t> checked_add(std::size_t a, std::size_t b);

}  // namespace lamina
