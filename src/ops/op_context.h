#pragma once

#include <cstddef>

#include "device/stream.h"

namespace lamina::ops {

/// Where operations run and the scratch memory they share. Every operation takes one as its first argument, checks its
/// operands (throws internal naming the operation and the shapes) and enqueues its work; nothing is allocated.
///
/// Activations are f32; on CUDA they may be bf16, then all activations of one operation are. Sums are f32.
///
/// A context without workspace plans: operations check their operands and note the scratch they would need, but run
/// nothing, and operands may lack data. Running a model once on a planning context therefore measures its workspace.
/// Operations on one stream run in order, so they share the same scratch bytes.
class OpContext {
 public:
  /// Runs on `stream`, with scratch [workspace, workspace + size_bytes) of its device, owned by the caller.
  OpContext(Stream& stream, std::byte* workspace, std::size_t size_bytes)
      : stream_(stream), workspace_(workspace), size_bytes_(size_bytes) {}

  static OpContext planning(Stream& stream) {
    OpContext context(stream, nullptr, 0);
    context.is_planning_ = true;
    return context;
  }

  Stream& stream() const noexcept { return stream_; }
  bool is_planning() const noexcept { return is_planning_; }

  /// Scratch of one operation, from the workspace's start. Throws internal where the plan was too small.
  std::byte* scratch(std::size_t size_bytes);

  /// Largest scratch asked for so far.
  std::size_t peak_bytes() const noexcept { return peak_bytes_; }

 private:
  Stream& stream_;
  std::byte* workspace_;
  std::size_t size_bytes_;
  bool is_planning_ = false;
  std::size_t peak_bytes_ = 0;
};

}  // namespace lamina::ops
