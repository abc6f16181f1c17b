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
  int index = 0;                                  ///< as CUDA counts, after CUDA_VISIBLE_DEVICES
  std::optional<std::size_t> memory_limit_bytes;  ///< besides what is free at creation, see `kCudaLibraryRoom`
  /// Where pinned memory is booked; null: in the process's shared budget.
  std::shared_ptr<HostMemoryBudget> host_memory = nullptr;
  /// For tests: a stream does nothing for so long before a copy (`work` is its label) or a wait (its event's name).
  std::function<std::chrono::nanoseconds(std::string_view stream, std::string_view work)> delay;
};

/// Of the memory that a GPU has free when a device of it is created, so much is left to CUDA's libraries, which load
/// their code and take their handles' memory when they are first used. All else is the device's limit.
inline constexpr std::size_t kCudaLibraryRoom = std::size_t{512} << 20;

/// A GPU. Throws unavailable, saying what is missing: this build has no CUDA backend, there is no driver, it is too
/// old, there is no such device, or the device is not of the architecture that this build has code for.
std::unique_ptr<Device> create_cuda_device(CudaDeviceOptions options = {});

/// Why this build cannot use CUDA device `index` here, in one sentence; empty where it can.
std::string cuda_unavailable_reason(int index = 0);

}  // namespace lamina
