#pragma once

#include <span>

#include "device/access.h"

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_read_range(void* address, unsigned long size_bytes);
void __tsan_write_range(void* address, unsigned long size_bytes);
}
#endif

namespace lamina::cpu {

/// Makes the calling thread read and write the ranges in the eyes of ThreadSanitizer: it does not see the accesses of
/// libraries that are not instrumented. Nothing in other builds.
inline void show_to_thread_sanitizer([[maybe_unused]] std::span<const MemoryRange> reads,
                                     [[maybe_unused]] std::span<const MemoryRange> writes) {
#if defined(__SANITIZE_THREAD__)
  for (const MemoryRange& range : reads) __tsan_read_range(const_cast<std::byte*>(range.begin), range.size_bytes);
  for (const MemoryRange& range : writes) __tsan_write_range(const_cast<std::byte*>(range.begin), range.size_bytes);
#endif
}

}  // namespace lamina::cpu
