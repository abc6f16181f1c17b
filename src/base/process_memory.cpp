#include "base/process_memory.h"

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/system_file.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

std::size_t required_field(std::string_view text, std::string_view field, const fs::path& file) {
  const std::optional<std::string_view> value = find_system_field(text, field);
  if (!value) fail(ErrorCode::corrupt, "{}: the field {} is missing", file.string(), field);
  return parse_system_kib(*value, file, field);
}

std::size_t field_or_zero(std::string_view text, std::string_view field, const fs::path& file) {
  const std::optional<std::string_view> value = find_system_field(text, field);
  return value ? parse_system_kib(*value, file, field) : 0;
}

}  // namespace

std::optional<ProcessMemory> read_process_memory(const fs::path& root) {
  const fs::path rollup_file = root / "proc/self/smaps_rollup";
  const std::optional<std::string> rollup = read_system_file(rollup_file);
  if (!rollup) return std::nullopt;
  const fs::path status_file = root / "proc/self/status";
  const std::string status = read_system_file(status_file).value_or("");
  return ProcessMemory{.pss_bytes = required_field(*rollup, "Pss", rollup_file),
                       .private_clean_bytes = required_field(*rollup, "Private_Clean", rollup_file),
                       .private_dirty_bytes = required_field(*rollup, "Private_Dirty", rollup_file),
                       .shared_clean_bytes = required_field(*rollup, "Shared_Clean", rollup_file),
                       .shared_dirty_bytes = required_field(*rollup, "Shared_Dirty", rollup_file),
                       .locked_bytes = field_or_zero(status, "VmLck", status_file),
                       .pinned_bytes = field_or_zero(status, "VmPin", status_file)};
}

std::optional<std::size_t> read_available_memory(const fs::path& root) {
  const fs::path file = root / "proc/meminfo";
  const std::optional<std::string> text = read_system_file(file);
  const auto value = text ? find_system_field(*text, "MemAvailable") : std::nullopt;
  if (!value) return std::nullopt;
  return parse_system_kib(*value, file, "MemAvailable");
}

}  // namespace lamina
