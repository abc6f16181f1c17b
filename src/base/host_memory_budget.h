#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"

namespace lamina {

/// Books the pinned host memory of a process by part ("weights", "staging", "results"). What exceeds the explicit
/// limit, or the limit of a control group around the process, is refused; what exceeds the memory that the system calls
/// available is only warned of, once, since virtual machines grow. Thread safe.
class HostMemoryBudget {
 public:
  /// `root` stands before /proc and /sys.
  explicit HostMemoryBudget(std::optional<std::size_t> limit_bytes, std::filesystem::path root = "/");

  /// Throws out_of_host_memory with asked, used (by part) and allowed bytes and the limit's name; then nothing is
  /// booked.
  void reserve(std::size_t size_bytes, std::string_view part);
  void release(std::size_t size_bytes, std::string_view part) noexcept { bookings_.release(size_bytes, part); }

  /// Books nothing; throws as `reserve` does where the needs together do not fit. `advice` ends the message.
  void check_fits(std::span<const MemoryNeed> needs, std::string_view purpose, std::string_view advice) const;

  /// Whether no limit refuses the needs, and the system calls as much available.
  bool fits_comfortably(std::span<const MemoryNeed> needs) const;

  /// `limit_bytes` is the explicit one.
  MemoryUse use() const { return bookings_.use(); }
  /// Those of control groups, as they stand now, innermost first.
  std::vector<MemoryLimit> system_limits() const;
  const std::filesystem::path& root() const noexcept { return root_; }

 private:
  void warn_beyond(std::optional<std::size_t> available, std::size_t size_bytes) const;

  const std::filesystem::path root_;
  MemoryBudget bookings_;
  mutable std::atomic<bool> warned_ = false;
};

/// The budget that everything in this process shares while somebody holds it. Without `limit_bytes` it is taken as it
/// is. Throws incompatible where it lives with another limit: a process has one.
std::shared_ptr<HostMemoryBudget> process_host_memory(std::optional<std::size_t> limit_bytes = std::nullopt);

}  // namespace lamina
