#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// Bytes of one part ("ring", "resident", "activations", ...) of a device's memory.
struct MemoryPart {
  std::string name;
  std::size_t used_bytes = 0;
  std::size_t peak_bytes = 0;     ///< the part's own peak since `reset_peak`
  std::size_t at_peak_bytes = 0;  ///< the part's share when the total peaked
};

struct MemoryUse {
  std::optional<std::size_t> limit_bytes;  ///< nullopt: unlimited
  std::size_t used_bytes = 0;
  std::size_t peak_bytes = 0;
  std::vector<MemoryPart> parts;  ///< by name
};

/// Books a device's memory by part, and refuses what exceeds the limit. Thread safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::optional<std::size_t> limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Throws out_of_device_memory with asked, used (by part) and allowed bytes; then nothing is booked.
  void reserve(std::size_t size_bytes, std::string_view part);
  void release(std::size_t size_bytes, std::string_view part) noexcept;

  MemoryUse use() const;
  /// Peaks start again from what is used now.
  void reset_peak();

 private:
  struct Booking {
    std::size_t used_bytes = 0;
    std::size_t peak_bytes = 0;
    std::size_t at_peak_bytes = 0;
  };

  void note_peak();

  const std::optional<std::size_t> limit_bytes_;
  mutable std::mutex mutex_;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::map<std::string, Booking, std::less<>> parts_;
};

}  // namespace lamina
