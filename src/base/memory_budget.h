#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/error.h"

namespace lamina {

/// Bytes of one part ("ring", "resident", "activations", ...) of a memory.
struct MemoryPart {
  std::string name;
  std::size_t used_bytes = 0;
  std::size_t peak_bytes = 0;     ///< the part's own peak since `reset_peak`
  std::size_t at_peak_bytes = 0;  ///< the part's share when the total peaked
};

struct MemoryUse {
  std::optional<std::size_t> limit_bytes;  ///< nullopt: unlimited
  std::string limit_source;                ///< see MemoryLimit
  std::size_t used_bytes = 0;
  std::size_t peak_bytes = 0;
  std::vector<MemoryPart> parts;  ///< by name
};

/// Bytes that a part is going to reserve.
struct MemoryNeed {
  std::string part;
  std::size_t size_bytes = 0;
};

std::size_t total_bytes(std::span<const MemoryNeed> needs) noexcept;

/// A bound on a memory, and where it comes from.
struct MemoryLimit {
  std::size_t limit_bytes = 0;
  std::string source;  ///< "--host-memory-limit"; empty: goes without saying
  /// What the system counts against the limit, whoever uses it. nullopt: the budget's own bookings alone count.
  std::optional<std::size_t> in_use_bytes;
};

/// How refusals speak of a memory.
struct MemoryKind {
  ErrorCode refusal;
  std::string_view noun;
};

inline constexpr MemoryKind kDeviceMemory{ErrorCode::out_of_device_memory, "device memory"};
inline constexpr MemoryKind kHostMemory{ErrorCode::out_of_host_memory, "host memory"};

/// Books a memory by part, and refuses what exceeds a limit. Thread safe.
class MemoryBudget {
 public:
  MemoryBudget(MemoryKind kind, std::optional<std::size_t> limit_bytes, std::string limit_source = {});

  /// Throws the kind's refusal with asked, used (by part) and allowed bytes; then nothing is booked. `further` limits
  /// hold for this call. Where the system tells what is in use, that or the bookings count, whichever is more: booked
  /// bytes show in the system's figure only once they are touched.
  void reserve(std::size_t size_bytes, std::string_view part, std::span<const MemoryLimit> further = {});
  void release(std::size_t size_bytes, std::string_view part) noexcept;

  /// Books nothing; throws as `reserve` does where the needs together exceed a limit. `purpose` ("loading the weights")
  /// and `advice` ("raise the limit") stand in the message.
  void check_fits(std::span<const MemoryNeed> needs, std::string_view purpose, std::string_view advice,
                  std::span<const MemoryLimit> further = {}) const;

  /// Whether `check_fits` would let the needs pass.
  bool fits(std::span<const MemoryNeed> needs, std::span<const MemoryLimit> further = {}) const;

  MemoryUse use() const;
  /// Peaks start again from what is used now.
  void reset_peak();

 private:
  struct Booking {
    std::size_t used_bytes = 0;
    std::size_t peak_bytes = 0;
    std::size_t at_peak_bytes = 0;
  };

  const MemoryLimit* exceeded_by(std::size_t size_bytes, std::span<const MemoryLimit> further) const;
  [[noreturn]] void refuse(std::string_view asked, const MemoryLimit& limit, std::string_view advice) const;
  void note_peak();

  const MemoryKind kind_;
  const std::optional<MemoryLimit> limit_;
  mutable std::mutex mutex_;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::map<std::string, Booking, std::less<>> parts_;
};

}  // namespace lamina
