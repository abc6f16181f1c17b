#include "base/cgroup.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/system_file.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

/// How the two versions spell the same things.
struct Interface {
  std::string_view mount;  ///< below the root
  std::string_view limit;
  std::string_view usage;
  std::array<std::string_view, 2> file_pages;  ///< fields of memory.stat
};

constexpr Interface kV1{"sys/fs/cgroup/memory",
                        "memory.limit_in_bytes",
                        "memory.usage_in_bytes",
                        {"total_active_file", "total_inactive_file"}};
constexpr Interface kV2{"sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}};

/// v1 says "no limit" with the largest number of bytes in whole pages, v2 with "max".
constexpr std::size_t kV1Unlimited = std::size_t{1} << 62;

struct Membership {
  const Interface* interface = nullptr;
  fs::path group;  ///< relative to the mount
};

/// A line is "hierarchy:controller,controller:/path"; v2's is "0::/path".
std::optional<Membership> find_membership(std::string_view text, const fs::path& file) {
  std::optional<Membership> found;
  for (const std::string_view line : split_lines(text)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos || !line.substr(second + 1).starts_with('/'))
      fail(ErrorCode::corrupt, "{}: '{}' is no control group; 'number:controllers:/path' is expected", file.string(),
           line);
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const fs::path group = fs::path(line.substr(second + 2)).lexically_normal();
    if (controllers.find(",memory,") != controllers.npos) return Membership{&kV1, group};
    if (line.starts_with("0::")) found = Membership{&kV2, group};
  }
  return found;
}

/// The group's folder and those around it, up to the mount. A group outside what this process sees ("/../other") has
/// the mount alone.
std::vector<fs::path> folders_of(const fs::path& mount, const fs::path& group) {
  std::vector<fs::path> folders{mount};
  for (const fs::path& name : group) {
    if (name == "..") return {mount};
    if (!name.empty() && name != ".") folders.push_back(folders.back() / name);
  }
  std::reverse(folders.begin(), folders.end());
  return folders;
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

std::size_t in_use(const fs::path& folder, const Interface& interface) {
  const fs::path usage_file = folder / interface.usage;
  const std::optional<std::string> usage = read_system_file(usage_file);
  if (!usage) return 0;
  std::size_t size = parse_system_bytes(first_line(*usage), usage_file, "usage");
  const fs::path stat_file = folder / "memory.stat";
  const std::string stat = read_system_file(stat_file).value_or("");
  for (const std::string_view field : interface.file_pages)
    if (const auto value = find_system_field(stat, field))
      size -= std::min(size, parse_system_bytes(*value, stat_file, field));
  return size;
}

}  // namespace

std::vector<CgroupMemory> read_cgroup_limits(const fs::path& root) {
  const fs::path membership_file = root / "proc/self/cgroup";
  const std::optional<std::string> text = read_system_file(membership_file);
  const std::optional<Membership> membership = text ? find_membership(*text, membership_file) : std::nullopt;
  std::vector<CgroupMemory> limits;
  if (!membership) return limits;
  const Interface& interface = *membership->interface;
  for (const fs::path& folder : folders_of(root / interface.mount, membership->group)) {
    const fs::path limit_file = folder / interface.limit;
    const std::optional<std::string> limit = read_system_file(limit_file);
    if (!limit || first_line(*limit) == "max") continue;
    const std::size_t limit_bytes = parse_system_bytes(first_line(*limit), limit_file, "limit");
    if (limit_bytes < kV1Unlimited) limits.push_back({limit_file, limit_bytes, in_use(folder, interface)});
  }
  return limits;
}

}  // namespace lamina
