#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor_view.h"

namespace lamina {

/// A range of memory that a piece of work reads or writes.
struct MemoryRange {
  const std::byte* begin = nullptr;
  std::size_t size_bytes = 0;
};

inline MemoryRange range_of(const ConstTensorView& view) {
  return {view.data(), view.span_bytes()};
}

/// What one piece of stream work touches: the name is for messages and traces, the ranges for the order checker and
/// for ThreadSanitizer. Strided operands are given by their whole span.
struct Access {
  std::string_view name;
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
};

}  // namespace lamina
