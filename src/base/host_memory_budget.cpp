#include "base/host_memory_budget.h"

#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process_memory.h"

namespace lamina {

HostMemoryBudget::HostMemoryBudget(std::optional<std::size_t> limit_bytes, std::filesystem::path root)
    : root_(std::move(root)), bookings_(kHostMemory, limit_bytes, "--host-memory-limit") {}

void HostMemoryBudget::reserve(std::size_t size_bytes, std::string_view part) {
  const std::optional<std::size_t> available = read_available_memory(root_);
  bookings_.reserve(size_bytes, part, system_limits());
  warn_beyond(available, size_bytes);
}

void HostMemoryBudget::check_fits(std::span<const MemoryNeed> needs, std::string_view purpose,
                                  std::string_view advice) const {
  bookings_.check_fits(needs, purpose, advice, system_limits());
  warn_beyond(read_available_memory(root_), total_bytes(needs));
}

bool HostMemoryBudget::fits_comfortably(std::span<const MemoryNeed> needs) const {
  const std::optional<std::size_t> available = read_available_memory(root_);
  return bookings_.fits(needs, system_limits()) && (!available || total_bytes(needs) <= *available);
}

std::vector<MemoryLimit> HostMemoryBudget::system_limits() const {
  std::vector<MemoryLimit> limits;
  for (const CgroupMemory& group : read_cgroup_limits(root_))
    limits.push_back(
        {group.limit_bytes, fmt::format("the control group's {}", group.limit_file.string()), group.in_use_bytes});
  return limits;
}

void HostMemoryBudget::warn_beyond(std::optional<std::size_t> available, std::size_t size_bytes) const {
  if (!available || size_bytes <= *available || warned_.exchange(true)) return;
  spdlog::warn("{} of host memory asked for, the system calls {} available; it may swap, or end the process",
               format_size(size_bytes), format_size(*available));
}

std::shared_ptr<HostMemoryBudget> process_host_memory(std::optional<std::size_t> limit_bytes) {
  static std::mutex mutex;
  static std::weak_ptr<HostMemoryBudget> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<HostMemoryBudget> budget = shared.lock();
  if (budget == nullptr) {
    budget = std::make_shared<HostMemoryBudget>(limit_bytes);
    shared = budget;
  }
  const std::optional<std::size_t> held = budget->use().limit_bytes;
  if (limit_bytes && limit_bytes != held)
    fail(ErrorCode::incompatible, "host memory limit {}: this process already runs with {}; all its engines share one",
         format_size(*limit_bytes), held ? format_size(*held) : "none");
  return budget;
}

}  // namespace lamina
