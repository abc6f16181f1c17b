#include "device/memory_budget.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace lamina {

void MemoryBudget::reserve(std::size_t size_bytes, std::string_view part) {
  const std::lock_guard lock(mutex_);
  if (limit_bytes_ && (size_bytes > *limit_bytes_ || used_bytes_ > *limit_bytes_ - size_bytes)) {
    std::string parts;
    for (const auto& [name, booking] : parts_)
      if (booking.used_bytes > 0)
        parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, format_size(booking.used_bytes));
    fail(ErrorCode::out_of_device_memory, "device memory: {} asked for '{}', {} used ({}), {} allowed",
         format_size(size_bytes), part, format_size(used_bytes_), parts.empty() ? "nothing yet" : parts,
         format_size(*limit_bytes_));
  }
  auto booking = parts_.find(part);
  if (booking == parts_.end()) booking = parts_.emplace(part, Booking{}).first;
  booking->second.used_bytes += size_bytes;
  booking->second.peak_bytes = std::max(booking->second.peak_bytes, booking->second.used_bytes);
  used_bytes_ += size_bytes;
  if (used_bytes_ > peak_bytes_) note_peak();
}

void MemoryBudget::release(std::size_t size_bytes, std::string_view part) noexcept {
  const std::lock_guard lock(mutex_);
  const auto booking = parts_.find(part);
  if (booking == parts_.end()) return;
  booking->second.used_bytes -= size_bytes;
  used_bytes_ -= size_bytes;
}

MemoryUse MemoryBudget::use() const {
  const std::lock_guard lock(mutex_);
  MemoryUse use{limit_bytes_, used_bytes_, peak_bytes_, {}};
  for (const auto& [name, booking] : parts_)
    use.parts.push_back({name, booking.used_bytes, booking.peak_bytes, booking.at_peak_bytes});
  return use;
}

void MemoryBudget::reset_peak() {
  const std::lock_guard lock(mutex_);
  std::erase_if(parts_, [](const auto& entry) { return entry.second.used_bytes == 0; });
  for (auto& [name, booking] : parts_) booking.peak_bytes = booking.used_bytes;
  note_peak();
}

void MemoryBudget::note_peak() {
  peak_bytes_ = used_bytes_;
  for (auto& [name, booking] : parts_) booking.at_peak_bytes = booking.used_bytes;
}

}  // namespace lamina
