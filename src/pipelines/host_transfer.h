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

/// Enqueues the copy of `values` to a contiguous tensor of as many elements, f32 or bf16 (rounded to nearest even).
void upload_floats(StagingUploader& uploader, std::span<const float> values, const TensorView& destination);

/// Pinned memory for results on their way to the host, f32 or bf16 on the device.
class FloatDownload {
 public:
  FloatDownload() = default;
  FloatDownload(Device& device, DType dtype, std::int64_t count);

  /// Pinned memory that a download of so many elements takes.
  static std::size_t host_bytes(DType dtype, std::int64_t count) noexcept {
    return static_cast<std::size_t>(count) * size_of(dtype);
  }

  /// Enqueues the copy of a contiguous tensor of the download's dtype to elements [offset, offset + elements).
  void copy_async(Stream& stream, const ConstTensorView& source, std::int64_t offset = 0);
  /// All elements, once the stream is synchronized.
  std::vector<float> values() const;

 private:
  PinnedBuffer memory_;
  DType dtype_ = DType::f32;
  std::int64_t count_ = 0;
};

}  // namespace lamina
