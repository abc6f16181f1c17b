#include "base/system_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

bool means_hidden(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM || error == ESRCH;
}

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<std::size_t> parse_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::string> read_system_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  int error = file.is_open() ? 0 : errno;
  std::string text;
  std::array<char, 4096> buffer{};
  while (error == 0) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) return text;
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) error = errno;
  }
  if (means_hidden(error)) return std::nullopt;
  fail(ErrorCode::unavailable, "cannot read {}: {}", path.string(), std::strerror(error));
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::optional<std::string_view> find_system_field(std::string_view text, std::string_view field) {
  for (std::string_view line : split_lines(text)) {
    if (!line.starts_with(field)) continue;
    line.remove_prefix(field.size());
    const bool is_longer_name = !line.empty() && std::string_view(": \t").find(line.front()) == std::string_view::npos;
    if (is_longer_name) continue;
    if (line.starts_with(':')) line.remove_prefix(1);
    return trim(line);
  }
  return std::nullopt;
}

std::size_t parse_system_bytes(std::string_view value, const fs::path& file, std::string_view field) {
  const std::optional<std::size_t> number = parse_number(value);
  if (!number) fail(ErrorCode::corrupt, "{}: {} is '{}'; a whole number is expected", file.string(), field, value);
  return *number;
}

std::size_t parse_system_kib(std::string_view value, const fs::path& file, std::string_view field) {
  constexpr std::string_view kUnit = " kB";
  std::optional<std::size_t> number;
  if (value.ends_with(kUnit)) number = parse_number(value.substr(0, value.size() - kUnit.size()));
  if (number) number = checked_mul(*number, kKiB);
  if (!number)
    fail(ErrorCode::corrupt, "{}: {} is '{}'; a whole number of kB is expected", file.string(), field, value);
  return *number;
}

}  // namespace lamina
