#pragma once

#include <atomic>
#include <cstdint>

namespace lamina::cpu {

/// A count that is raised and waited for. Raising orders what came before it before what follows the wait, and nothing
/// the other way round. A mutex would order both ways, whoever came first: streams that merely met at one would look
/// ordered to ThreadSanitizer, and it would miss the very races that these streams are meant to show. Thread safe.
class Progress {
 public:
  void raise();
  std::uint32_t value() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Blocks until raised to `value`. Counts wrap around: the two must lie less than 2^31 apart.
  void wait_for(std::uint32_t value) const;

 private:
  std::atomic<std::uint32_t> value_{0};
};

}  // namespace lamina::cpu
