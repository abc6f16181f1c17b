#pragma once

#include <cuda_runtime.h>

#include <chrono>

namespace lamina::cuda {

/// Lets `stream` do nothing for at least `duration`.
void spin_async(cudaStream_t stream, std::chrono::nanoseconds duration);

/// Success where this build has code for the current device, else the runtime's reason.
cudaError_t find_device_code();

}  // namespace lamina::cuda
