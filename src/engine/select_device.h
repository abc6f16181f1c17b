#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "device/device.h"

namespace lamina {

/// "auto" and "cpu" give the CPU device. Throws unavailable for a device this build has no backend for,
/// invalid_argument for any other name.
std::unique_ptr<Device> select_device(const std::string& name, std::optional<std::size_t> memory_limit_bytes,
                                      std::shared_ptr<HostMemoryBudget> host_memory);

}  // namespace lamina
