#pragma once

#include <unistd.h>

#include <exception>
#include <stdexcept>

namespace lamina::testing {

/// While it lives, permissions of files bind this process even if it runs as root.
class WithoutPrivileges {
 public:
  WithoutPrivileges() {
    if (was_root_ && ::seteuid(kNobody) != 0) throw std::runtime_error("cannot give up root's rights");
  }
  ~WithoutPrivileges() {
    if (was_root_ && ::seteuid(0) != 0) std::terminate();
  }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const bool was_root_ = ::geteuid() == 0;
};

}  // namespace lamina::testing
