#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace lamina {

/// A control group with a memory limit that binds this process.
struct CgroupMemory {
  std::filesystem::path limit_file;  ///< where the limit stands
  std::size_t limit_bytes = 0;
  /// What all processes of the group use, without file pages, which the kernel gives up before it refuses memory.
  std::size_t in_use_bytes = 0;
};

/// The limited groups of this process, its own first and then those around it, as far as they can be seen: cgroup v1
/// where the memory controller is mounted so, else v2. Each of them may refuse. Empty without limits or control groups.
/// Reads <root>/proc/self/cgroup and <root>/sys/fs/cgroup; may be called from any thread. Throws corrupt naming the
/// file and what was expected.
std::vector<CgroupMemory> read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace lamina
