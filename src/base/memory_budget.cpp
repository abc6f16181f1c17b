#include "base/memory_budget.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace lamina {
namespace {

void append_part(std::string& parts, std::string_view name, std::size_t size_bytes) {
  if (size_bytes > 0) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, format_size(size_bytes));
}

bool exceeds(std::size_t size_bytes, std::size_t used_bytes, const MemoryLimit& limit) {
  const std::size_t used = std::max(used_bytes, limit.in_use_bytes.value_or(0));
  return size_bytes > limit.limit_bytes || used > limit.limit_bytes - size_bytes;
}

}  // namespace

std::size_t total_bytes(std::span<const MemoryNeed> needs) noexcept {
  std::size_t total = 0;
  for (const MemoryNeed& need : needs)
    total = checked_add(total, need.size_bytes).value_or(std::numeric_limits<std::size_t>::max());
  return total;
}

MemoryBudget::MemoryBudget(MemoryKind kind, std::optional<std::size_t> limit_bytes, std::string limit_source)
    : kind_(kind),
      limit_(limit_bytes ? std::optional(MemoryLimit{*limit_bytes, std::move(limit_source), std::nullopt})
                         : std::nullopt) {}

void MemoryBudget::reserve(std::size_t size_bytes, std::string_view part, std::span<const MemoryLimit> further) {
  const std::lock_guard lock(mutex_);
  if (const MemoryLimit* limit = exceeded_by(size_bytes, further))
    refuse(fmt::format("{} asked for '{}'", format_size(size_bytes), part), *limit, {});
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

void MemoryBudget::check_fits(std::span<const MemoryNeed> needs, std::string_view purpose, std::string_view advice,
                              std::span<const MemoryLimit> further) const {
  const std::lock_guard lock(mutex_);
  const std::size_t total = total_bytes(needs);
  const MemoryLimit* limit = exceeded_by(total, further);
  if (limit == nullptr) return;
  std::string parts;
  for (const MemoryNeed& need : needs) append_part(parts, need.part, need.size_bytes);
  refuse(fmt::format("{} asked for {} ({})", format_size(total), purpose, parts), *limit, advice);
}

bool MemoryBudget::fits(std::span<const MemoryNeed> needs, std::span<const MemoryLimit> further) const {
  const std::lock_guard lock(mutex_);
  return exceeded_by(total_bytes(needs), further) == nullptr;
}

MemoryUse MemoryBudget::use() const {
  const std::lock_guard lock(mutex_);
  MemoryUse use{limit_ ? std::optional(limit_->limit_bytes) : std::nullopt,
                limit_ ? limit_->source : std::string(),
                used_bytes_,
                peak_bytes_,
                {}};
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

const MemoryLimit* MemoryBudget::exceeded_by(std::size_t size_bytes, std::span<const MemoryLimit> further) const {
  if (limit_ && exceeds(size_bytes, used_bytes_, *limit_)) return &*limit_;
  for (const MemoryLimit& limit : further)
    if (exceeds(size_bytes, used_bytes_, limit)) return &limit;
  return nullptr;
}

void MemoryBudget::refuse(std::string_view asked, const MemoryLimit& limit, std::string_view advice) const {
  std::string parts;
  for (const auto& [name, booking] : parts_) append_part(parts, name, booking.used_bytes);
  std::string allowed = format_size(limit.limit_bytes) + " allowed";
  if (!limit.source.empty()) allowed += " by " + limit.source;
  if (limit.in_use_bytes) allowed += fmt::format(", of which {} in use", format_size(*limit.in_use_bytes));
  fail(kind_.refusal, "{}: {}, {} used ({}), {}{}{}", kind_.noun, asked, format_size(used_bytes_),
       parts.empty() ? "nothing yet" : parts, allowed, advice.empty() ? "" : "; ", advice);
}

void MemoryBudget::note_peak() {
  peak_bytes_ = used_bytes_;
  for (auto& [name, booking] : parts_) booking.at_peak_bytes = booking.used_bytes;
}

}  // namespace lamina
