#include "device/cuda/cuda_native.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/stream_watch.h"
#include "device/device.h"

namespace lamina::cuda {
namespace {

[[noreturn]] void refuse(ErrorCode code, std::string_view library, std::string_view reason, std::string_view name,
                         const std::source_location& where) {
  static_cast<void>(cudaGetLastError());  // the libraries' own calls of the runtime may have left one
  fail(code, "{}: {} ({}) at {}:{}", library, reason, name, where.file_name(), where.line());
}

CudaStream& cuda_stream_of(Stream& stream) {
  expects(stream.device().kind() == DeviceKind::cuda, "CUDA work on stream '{}' of {}", stream.name(),
          stream.device().name());
  return static_cast<CudaStream&>(stream);
}

}  // namespace

void check(cudaError_t status, std::source_location where) {
  if (status != cudaSuccess) check(status, fmt::format("CUDA at {}:{}", where.file_name(), where.line()));
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const bool is_memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  refuse(is_memory ? ErrorCode::out_of_device_memory : ErrorCode::device, "cuBLASLt", cublasLtGetStatusString(status),
         cublasLtGetStatusName(status), where);
}

void check(cudnnStatus_t status, std::source_location where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const bool is_memory = status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  char reason[1024] = "";
  cudnnGetLastErrorString(reason, sizeof(reason));
  refuse(is_memory ? ErrorCode::out_of_device_memory : ErrorCode::device, "cuDNN", reason, cudnnGetErrorString(status),
         where);
}

cudaStream_t native(Stream& cuda_stream) {
  const CudaStream& stream = cuda_stream_of(cuda_stream);
  stream.gpu().make_current();
  return stream.handle();
}

void watch(Stream& stream, const std::shared_ptr<const StreamWatch>& watch) {
  cuda_stream_of(stream).add_watch(watch);
}

int multiprocessor_count(Stream& cuda_stream) {
  return cuda_stream_of(cuda_stream).gpu().multiprocessors();
}

}  // namespace lamina::cuda
