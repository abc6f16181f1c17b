#include "device/cuda/cuda_status.h"

#include <fmt/format.h>

#include "base/log.h"

namespace lamina::cuda {

std::string describe(cudaError_t status) {
  static_cast<void>(cudaGetLastError());
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_device_memory : ErrorCode::device;
  throw Error(code, fmt::format("{}: {}", what, describe(status)));
}

bool log_failure(cudaError_t status, std::string_view what) noexcept {
  if (status == cudaSuccess) return true;
  spdlog::error("{}: {}", what, describe(status));
  return false;
}

}  // namespace lamina::cuda
