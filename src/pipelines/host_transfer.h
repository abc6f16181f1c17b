#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/stream.h"
#include "offload/staging.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// Enqueues the copy of `values` to a contiguous f32 tensor of as many elements.
void upload_floats(StagingUploader& uploader, std::span<const float> values, const TensorView& destination);

/// Pinned memory for f32 results on their way to the host.
class FloatDownload {
 public:
  FloatDownload() = default;
  FloatDownload(Device& device, std::int64_t count);

  /// Pinned memory that a download of so many elements takes.
  static constexpr std::size_t host_bytes(std::int64_t count) noexcept {
    return static_cast<std::size_t>(count) * sizeof(float);
  }

  /// Enqueues the copy of a contiguous f32 tensor to elements [offset, offset + elements).
  void copy_async(Stream& stream, const ConstTensorView& source, std::int64_t offset = 0);
  /// All elements, once the stream is synchronized.
  std::vector<float> values() const;

 private:
  PinnedBuffer memory_;
  std::int64_t count_ = 0;
};

}  // namespace lamina
