#include "offload/staging.h"

#include <algorithm>
#include <cstring>

namespace lamina {

StagingUploader::StagingUploader(Device& device, Stream& stream, std::size_t buffer_bytes)
    : device_(device), stream_(stream), buffer_bytes_(buffer_bytes) {
  for (Buffer& buffer : buffers_) {
    buffer.memory = device.allocate_pinned(buffer_bytes, "staging");
    buffer.copied = device.create_event("staging");
    buffer.watched = WatchedRange(device.order(), {buffer.memory.data(), buffer_bytes}, "staging");
  }
}

void StagingUploader::upload(std::byte* device_destination, std::span<const std::byte> source, std::string_view label) {
  const auto fill = [source](std::size_t offset, std::span<std::byte> destination) {
    std::memcpy(destination.data(), source.data() + offset, destination.size());
  };
  upload(device_destination, source.size(), fill, label);
}

void StagingUploader::upload(std::byte* device_destination, std::size_t size_bytes, const Fill& fill,
                             std::string_view label) {
  for (std::size_t offset = 0; offset < size_bytes;) {
    Buffer& buffer = buffers_[next_];
    next_ = 1 - next_;
    const std::size_t size = std::min(size_bytes - offset, buffer_bytes_);
    buffer.copied->synchronize();
    device_.order().access(OrderChecker::kHost, {"fill staging", {}, {{buffer.memory.data(), size}}});
    fill(offset, {buffer.memory.data(), size});
    stream_.copy_to_device_async(device_destination + offset, buffer.memory.data(), size, label);
    stream_.record(*buffer.copied);
    offset += size;
  }
}

}  // namespace lamina
