#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lamina {

/// Four random words for each counter. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", and its
/// library Random123: philox4x32 with 10 rounds.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// The normal values that a generator of PyTorch on a CUDA device draws, one call of `torch.randn` after the other.
/// Which thread draws which value depends there on how many threads the device runs at once; here it is an H100 or H200
/// (132 multiprocessors of 2,048 threads), which matters from 270,337 values on. Values agree but for the last bits of
/// the device's log, sin and cos. One thread at a time.
/// Source: PyTorch, aten/src/ATen/native/cuda/DistributionTemplates.h; cuRAND, curand_normal.h.
class PhiloxGenerator {
 public:
  explicit PhiloxGenerator(std::uint64_t seed) : seed_(seed) {}

  std::vector<float> draw(std::size_t count);

 private:
  std::array<float, 4> normals(std::uint64_t thread, std::uint64_t call) const;

  std::uint64_t seed_;
  std::uint64_t calls_ = 0;  ///< of each thread so far; a call gives four values
};

}  // namespace lamina
