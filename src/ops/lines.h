#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace lamina::ops {

/// A view of up to four axes as lines of contiguous bytes: one for each place in the axes before the last.
template <typename Byte>
struct Lines {
  static constexpr std::size_t kAxes = 3;

  Byte* first = nullptr;
  std::int64_t size_bytes = 0;  ///< of a line
  std::array<std::int64_t, kAxes> extents{1, 1, 1};
  std::array<std::int64_t, kAxes> strides{};  ///< in bytes

  explicit Lines(const BasicTensorView<Byte>& view) : first(view.data()) {
    const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
    const std::size_t last = view.rank() - 1;
    size_bytes = view.size(last) * element;
    for (std::size_t axis = 0; axis < last; ++axis) {
      extents[kAxes - last + axis] = view.size(axis);
      strides[kAxes - last + axis] = view.stride(axis) * element;
    }
  }

  std::int64_t count() const { return extents[0] * extents[1] * extents[2]; }
};

}  // namespace lamina::ops
