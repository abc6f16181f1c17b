#include "ops/op_context.h"

#include <algorithm>

#include "base/error.h"

namespace lamina::ops {

std::byte* OpContext::scratch(std::size_t size_bytes) {
  peak_bytes_ = std::max(peak_bytes_, size_bytes);
  if (is_planning()) return nullptr;
  expects(size_bytes <= size_bytes_, "an operation needs {} bytes of scratch, the workspace has {}", size_bytes,
          size_bytes_);
  return workspace_;
}

}  // namespace lamina::ops
