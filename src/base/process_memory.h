#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace lamina {

/// What this process holds of the host's memory, as the kernel counts it.
struct ProcessMemory {
  std::size_t pss_bytes = 0;  ///< resident, shared pages divided by the processes that share them
  std::size_t private_clean_bytes = 0;
  std::size_t private_dirty_bytes = 0;
  std::size_t shared_clean_bytes = 0;  ///< mapped files that other processes map too
  std::size_t shared_dirty_bytes = 0;
  std::size_t locked_bytes = 0;  ///< VmLck: locked by mlock
  std::size_t pinned_bytes = 0;  ///< VmPin: pinned by drivers, as a GPU's registration does
};

/// From <root>/proc/self/smaps_rollup and status; nullopt where the kernel does not tell. Walks the page tables: some
/// milliseconds a GiB. Throws corrupt naming file and field.
std::optional<ProcessMemory> read_process_memory(const std::filesystem::path& root = "/");

/// MemAvailable of <root>/proc/meminfo: what the kernel can give without swapping, by its estimate. nullopt where it
/// does not tell; throws corrupt naming the file.
std::optional<std::size_t> read_available_memory(const std::filesystem::path& root = "/");

}  // namespace lamina
