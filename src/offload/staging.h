#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "device/device.h"
#include "device/event.h"
#include "device/stream.h"
#include "offload/watched_range.h"

namespace lamina {

/// Copies to the device what is in ordinary host memory, or made on the way, through two pinned buffers: while one is
/// on the link, the launching thread fills the other. Used by one thread.
class StagingUploader {
 public:
  /// Makes the bytes from `offset_bytes` on of what is uploaded.
  using Fill = std::function<void(std::size_t offset_bytes, std::span<std::byte> destination)>;

  StagingUploader(Device& device, Stream& stream, std::size_t buffer_bytes);

  /// Enqueues the copy on the uploader's stream; `source` may be reused on return. Blocks the host where both buffers
  /// are still on the link.
  void upload(std::byte* device_destination, std::span<const std::byte> source, std::string_view label);
  /// The same for bytes that `fill` makes on this thread, buffer by buffer; what it throws ends the upload.
  void upload(std::byte* device_destination, std::size_t size_bytes, const Fill& fill, std::string_view label);

  Stream& stream() const noexcept { return stream_; }

  /// Pinned memory that an uploader of such buffers takes.
  static constexpr std::size_t host_bytes(std::size_t buffer_bytes) noexcept { return kBuffers * buffer_bytes; }

 private:
  static constexpr std::size_t kBuffers = 2;

  struct Buffer {
    PinnedBuffer memory;
    WatchedRange watched;
    std::unique_ptr<Event> copied;
  };

  Device& device_;
  Stream& stream_;
  std::size_t buffer_bytes_;
  std::array<Buffer, kBuffers> buffers_;
  std::size_t next_ = 0;
};

}  // namespace lamina
