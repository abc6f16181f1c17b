#include "device/cuda/availability.h"

#include <fmt/format.h>

#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/gpu.h"
#include "device/cuda/spin.h"

namespace lamina {
namespace cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Drivers serve every minor version of the CUDA that they were made for.
std::string needed_driver() {
  return fmt::format("this build needs one for CUDA {} or later", version_text(CUDART_VERSION / 1000 * 1000));
}

Installation find_installation() {
  Installation found;
  if (cudaDriverGetVersion(&found.driver_version) != cudaSuccess) found.driver_version = 0;
  found.status = cudaGetDeviceCount(&found.device_count);
  static_cast<void>(cudaGetLastError());
  return found;
}

std::string explain_missing_code(int index, cudaError_t status) {
  cudaDeviceProp device{};
  if (status == cudaErrorNoKernelImageForDevice && cudaGetDeviceProperties(&device, index) == cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return fmt::format("{} has compute capability {}.{}, this build has code for architecture {} only", device.name,
                       device.major, device.minor, LAMINA_CUDA_ARCHITECTURES);
  }
  return fmt::format("CUDA does not start on it: {}", describe(status));
}

}  // namespace

std::string explain_absence(const Installation& installation, int index) {
  const std::string driver = version_text(installation.driver_version);
  if (installation.driver_version == 0)
    return fmt::format("there is no NVIDIA driver on this machine, {}", needed_driver());
  if (installation.status == cudaErrorInsufficientDriver)
    return fmt::format("the NVIDIA driver is too old: it is for CUDA {}, {}", driver, needed_driver());
  if (installation.status == cudaErrorNoDevice ||
      (installation.status == cudaSuccess && installation.device_count == 0))
    return fmt::format("the NVIDIA driver, for CUDA {}, finds no GPU (CUDA_VISIBLE_DEVICES may hide it)", driver);
  if (installation.status != cudaSuccess)
    return fmt::format("the NVIDIA driver, for CUDA {}, does not start: {}", driver, describe(installation.status));
  if (index < 0 || index >= installation.device_count)
    return fmt::format(
        "there is no such device, {} found, counted from cuda:0",
        installation.device_count == 1 ? "one GPU is" : fmt::format("{} GPUs are", installation.device_count));
  return {};
}

std::string why_unusable(int index) {
  if (std::string absence = explain_absence(find_installation(), index); !absence.empty()) return absence;
  try {
    make_current(index);
  } catch (const Error& error) {
    return error.message();
  }
  const cudaError_t status = find_device_code();
  return status == cudaSuccess ? std::string() : explain_missing_code(index, status);
}

}  // namespace cuda

std::string cuda_unavailable_reason(int index) {
  return cuda::why_unusable(index);
}

}  // namespace lamina
