#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "device/device.h"

namespace lamina {

/// What a device's name stands for.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< of a GPU
};

/// "cpu"; "cuda:N", whether it exists or not; "cuda", which is "cuda:0"; "auto", which is cuda:0 where this build and
/// this machine have it, else the CPU. Throws invalid_argument for any other name.
DeviceChoice choose_device(std::string_view name);

/// Throws unavailable where there is no such device, saying what is missing.
std::unique_ptr<Device> create_device(DeviceChoice choice, std::optional<std::size_t> memory_limit_bytes,
                                      std::shared_ptr<HostMemoryBudget> host_memory);

}  // namespace lamina
