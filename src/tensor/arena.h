#pragma once

#include <cstddef>

#include "tensor/tensor_view.h"

namespace lamina {

/// Carves tensors out of one block of memory, front to back, 256-byte aligned. A default-constructed arena only
/// measures: it hands out views without data, and `peak_bytes` tells what a real one needs. So the memory of a sample
/// is computed by the very code that lays it out.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  Arena() = default;
  Arena(std::byte* base, std::size_t size_bytes) : base_(base), size_bytes_(size_bytes), measuring_(false) {}

  bool measuring() const noexcept { return measuring_; }

  /// A contiguous view of fresh memory; throws internal where the arena is too small.
  TensorView take(DType dtype, const Shape& shape);

  std::size_t used_bytes() const noexcept { return used_bytes_; }
  /// Gives back everything taken since `used_bytes()` returned `mark`.
  void rewind(std::size_t mark);

  std::size_t peak_bytes() const noexcept { return peak_bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_bytes_ = 0;
  bool measuring_ = true;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
};

}  // namespace lamina
