#pragma once

#include <memory>

#include "device/stream.h"

namespace lamina::cuda {

/// Something that work of a stream depends on and that may fail without the device's noticing, as a group of GPUs may.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  /// Throws where it has failed. Called by the thread that synchronizes the stream.
  virtual void check() const = 0;
};

/// From now on, for as long as it lives, `stream` (of a CUDA device) asks the watch when it is synchronized. Once for
/// each watch.
void watch(Stream& stream, const std::shared_ptr<const StreamWatch>& watch);

}  // namespace lamina::cuda
