#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

#include "engine/lockstep/messages.h"
#include "lamina/error.h"

namespace lamina {

/// "rank 2 failed, and with it its group: ...".
std::string to_string(const Fault& fault);

/// A fault as the reason for which communicators end, and back: ranks of other processes learn by it which rank failed
/// first. An error that states no fault is one of `rank`'s own.
Error as_reason(const Fault& fault);
Fault as_fault(const Error& error, std::size_t rank);

/// The first thing that went wrong among ranks that share a fate. Thread safe.
class FirstFault {
 public:
  /// The first one, which is `fault` unless there was one before.
  Fault note(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = fault;
    return *first_;
  }

 private:
  std::mutex mutex_;
  std::optional<Fault> first_;
};

}  // namespace lamina
