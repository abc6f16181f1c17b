#pragma once

#include <cuda_runtime.h>

#include <string>
#include <string_view>

#include "lamina/error.h"

/// Statuses of the CUDA runtime. A refused call is also remembered by the runtime as the thread's last error, where the
/// next launch would find it: all of these functions clear that.
namespace lamina::cuda {

/// "out of memory (cudaErrorMemoryAllocation)".
std::string describe(cudaError_t status);

/// Throws where `status` is a failure: out_of_device_memory or device, "`what`: out of memory (...)".
void check(cudaError_t status, std::string_view what);

/// Logs a failure, for destructors. True: there was none.
bool log_failure(cudaError_t status, std::string_view what) noexcept;

}  // namespace lamina::cuda
