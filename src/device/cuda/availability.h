#pragma once

#include <cuda_runtime.h>

#include <string>

namespace lamina::cuda {

/// What the CUDA runtime found on this machine.
struct Installation {
  int driver_version = 0;  ///< the latest CUDA that the driver knows, 13010 for 13.1; 0: no driver
  int device_count = 0;
  cudaError_t status = cudaSuccess;  ///< of counting the devices
};

/// One sentence on why there is no device `index`, empty where there is one.
std::string explain_absence(const Installation& installation, int index);

/// One sentence on why this build cannot use device `index` of this machine, empty where it can: it exists, and the
/// build has code for it. Starts CUDA on it.
std::string why_unusable(int index);

}  // namespace lamina::cuda
