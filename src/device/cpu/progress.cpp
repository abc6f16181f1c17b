#include "device/cpu/progress.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>

namespace lamina::cpu {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the system looks at the number itself");

// std::atomic's own wait and notify count the waiters in a shared place, which orders both ways.
void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t argument) {
  syscall(SYS_futex, &word, operation, argument, nullptr, nullptr, 0);
}

}  // namespace

void Progress::raise() {
  value_.fetch_add(1, std::memory_order_release);
  futex(value_, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max());
}

void Progress::wait_for(std::uint32_t value) const {
  for (std::uint32_t now = this->value(); static_cast<std::int32_t>(value - now) > 0; now = this->value())
    futex(value_, FUTEX_WAIT_PRIVATE, now);  // returns at once where the count has moved on
}

}  // namespace lamina::cpu
