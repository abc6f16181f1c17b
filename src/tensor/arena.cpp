#include "tensor/arena.h"

#include <algorithm>

#include "base/bytes.h"
#include "tensor/tensor_spec.h"

namespace lamina {

TensorView Arena::take(DType dtype, const Shape& shape) {
  const std::size_t offset = used_bytes_;
  const std::size_t size = align_up(TensorSpec{"", dtype, shape}.size_bytes(), kAlignment);
  if (!measuring())
    expects(size <= size_bytes_ - offset, "arena of {} bytes: {} used, {} more asked", size_bytes_, offset, size);
  used_bytes_ = offset + size;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return TensorView(measuring() ? nullptr : base_ + offset, dtype, shape);
}

void Arena::rewind(std::size_t mark) {
  expects(mark <= used_bytes_, "arena rewound to {} with {} used", mark, used_bytes_);
  used_bytes_ = mark;
}

}  // namespace lamina
