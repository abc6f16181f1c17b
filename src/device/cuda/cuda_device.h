#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "device/device.h"

namespace lamina {

struct CudaDeviceOptions {
  int index = 0;  ///< as CUDA counts, after CUDA_VISIBLE_DEVICES
  std::optional<std::size_t> memory_limit_bytes;
  /// Where pinned memory is booked; null: in the process's shared budget.
  std::shared_ptr<HostMemoryBudget> host_memory = nullptr;
  /// For tests: a stream does nothing for so long before a copy (`work` is its label) or a wait (its event's name).
  std::function<std::chrono::nanoseconds(std::string_view stream, std::string_view work)> delay;
};

/// A GPU. Throws unavailable, saying what is missing: this build has no CUDA backend, there is no driver, it is too
/// old, there is no such device, or the device is not of the architecture that this build has code for.
std::unique_ptr<Device> create_cuda_device(CudaDeviceOptions options = {});

/// Why there is no CUDA device 0 here, in one sentence; empty where there is one.
std::string cuda_unavailable_reason();

}  // namespace lamina
