#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace lamina::probe {

// Each returns what the launch returned.

/// Fills with bf16 values of about normal distribution, standard deviation `scale`; a function of seed and place alone.
/// Timing on zeros would flatter: the chip clocks higher when few bits toggle.
cudaError_t fill_random_async(std::byte* data, std::size_t size_bytes, float scale, std::uint64_t seed,
                              cudaStream_t stream);

/// Adds to `*sum` (device memory) a hash of the bytes and their places. `size_bytes` is a multiple of 8.
cudaError_t add_hash_async(const std::byte* data, std::size_t size_bytes, std::uint64_t* sum, cudaStream_t stream);

/// Copies 16 bytes a thread and turn; sizes are multiples of 16.
cudaError_t copy_by_kernel_async(std::byte* destination, const std::byte* source, std::size_t size_bytes,
                                 cudaStream_t stream);

/// A kernel that does next to nothing, to measure what lies between kernels.
cudaError_t touch_async(std::byte* byte, cudaStream_t stream);

}  // namespace lamina::probe
