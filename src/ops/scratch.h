#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/access.h"
#include "ops/op_context.h"

namespace lamina::ops {

/// The scratch of one operation in pieces: `add` each, `obtain` the whole from the context, then ask `at` for a piece.
/// Copies refer to the same bytes.
class Scratch {
 public:
  /// Pieces start on cache lines, as oneDNN's scratchpads must.
  static constexpr std::size_t kAlignment = 64;

  /// Returns the handle of a piece.
  std::size_t add(std::size_t size_bytes) {
    const std::size_t offset = size_bytes_;
    size_bytes_ += align_up(size_bytes, kAlignment);
    return offset;
  }

  void obtain(OpContext& context) { base_ = context.scratch(size_bytes_); }

  /// Null in a planning context.
  std::byte* at(std::size_t piece) const noexcept { return base_ == nullptr ? nullptr : base_ + piece; }
  float* floats(std::size_t piece) const noexcept { return reinterpret_cast<float*>(at(piece)); }

  MemoryRange range() const noexcept { return {base_, base_ == nullptr ? 0 : size_bytes_}; }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// Length of the chunks that cover `total` items where scratch has room for `room` (one at least): as even as can be,
/// so that the last one is no splinter.
inline std::int64_t chunk_length(std::int64_t total, std::int64_t room) {
  const std::int64_t most = std::clamp<std::int64_t>(room, 1, total);
  const std::int64_t chunks = (total + most - 1) / most;
  return (total + chunks - 1) / chunks;
}

}  // namespace lamina::ops
