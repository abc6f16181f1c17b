#include "base/error.h"
#include "device/cuda/cuda_device.h"

// In place of device/cuda, in a build without CUDA.
namespace lamina {

std::unique_ptr<Device> create_cuda_device(CudaDeviceOptions options) {
  fail(ErrorCode::unavailable, "cuda:{}: {}", options.index, cuda_unavailable_reason(options.index));
}

std::string cuda_unavailable_reason(int) {
  return "this build has no CUDA backend; it is built with the CMake preset cuda, where there is a CUDA 13 toolkit";
}

}  // namespace lamina
