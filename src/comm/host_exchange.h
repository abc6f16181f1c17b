#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lamina/error.h"

namespace lamina {

/// One rank's end of a group whose ranks exchange bytes of the host, round by round: the control plane's way, apart
/// from all devices. One thread of the rank uses it, except for `abort`. The group fails as a communicator's does.
class HostExchange {
 public:
  virtual ~HostExchange() = default;

  /// Blocks, however long it takes, until all ranks have entered; gives what each brought, in order. Throws the reason
  /// for which the group ended.
  virtual std::vector<std::vector<std::byte>> all_gather(std::vector<std::byte> mine) = 0;

  /// Ends the group on all ranks, unless it has ended. Any thread may call it at any time.
  virtual void abort(const Error& reason) noexcept = 0;
};

/// For a group of threads of this process: one end for each rank.
std::vector<std::unique_ptr<HostExchange>> create_local_exchange(const std::string& name, std::size_t ranks);

}  // namespace lamina
