#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// A small text file that the kernel writes while it is read (/proc, /sys), whose size nobody knows before. nullopt
/// where there is none, or where this process may not see it. Throws unavailable naming the path on any other error.
std::optional<std::string> read_system_file(const std::filesystem::path& path);

/// The lines of a text, without the last one's end.
std::vector<std::string_view> split_lines(std::string_view text);

/// What stands behind `field` in a line such as "field 4096" or "field:   4 kB", without the spaces around it. nullopt
/// without such a line.
std::optional<std::string_view> find_system_field(std::string_view text, std::string_view field);

/// "4096" as it is, and "4 kB" in bytes. Both throw corrupt naming file and field.
std::size_t parse_system_bytes(std::string_view value, const std::filesystem::path& file, std::string_view field);
std::size_t parse_system_kib(std::string_view value, const std::filesystem::path& file, std::string_view field);

}  // namespace lamina
