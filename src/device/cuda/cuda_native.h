#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <source_location>

#include "device/stream.h"

/// CUDA's own view of a CUDA device and its streams, for the operations.
namespace lamina::cuda {

/// Throws out_of_device_memory or device, naming the library, its reason and the caller's place in the source. A failed
/// call leaves no error behind for the next one, unless the device is lost.
void check(cudaError_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());
void check(cudnnStatus_t status, std::source_location where = std::source_location::current());

/// Makes the stream's device current on the calling thread.
void make_current(Stream& cuda_stream);

/// The stream of a CUDA device, whose device is made current.
cudaStream_t native(Stream& cuda_stream);

/// Multiprocessors of the stream's device.
int multiprocessor_count(Stream& cuda_stream);

}  // namespace lamina::cuda
