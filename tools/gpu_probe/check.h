#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <source_location>
#include <string_view>

#include "base/error.h"

namespace lamina::probe {

[[noreturn]] inline void fail_call(std::string_view library, std::string_view reason, std::source_location where) {
  fail(ErrorCode::device, "{}:{}: {} says: {}", where.file_name(), where.line(), library, reason);
}

inline void check(cudaError_t status, std::source_location where = std::source_location::current()) {
  if (status != cudaSuccess) fail_call("CUDA", cudaGetErrorString(status), where);
}

inline void check(cublasStatus_t status, std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_call("cuBLASLt", cublasLtGetStatusString(status), where);
}

inline void check(cudnnStatus_t status, std::source_location where = std::source_location::current()) {
  if (status != CUDNN_STATUS_SUCCESS) fail_call("cuDNN", cudnnGetErrorString(status), where);
}

}  // namespace lamina::probe
