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
  while (!source.empty()) {
    Buffer& buffer = buffers_[next_];
    next_ = 1 - next_;
    const std::size_t size = std::min(source.size(), buffer_bytes_);
    buffer.copied->synchronize();
    device_.order().access(OrderChecker::kHost, {"fill staging", {}, {{buffer.memory.data(), size}}});
    std::memcpy(buffer.memory.data(), source.data(), size);
    stream_.copy_to_device_async(device_destination, buffer.memory.data(), size, label);
    stream_.record(*buffer.copied);
    device_destination += size;
    source = source.subspan(size);
  }
}

}  // namespace lamina
