#include "device/device.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

namespace lamina {
namespace {

void unmap(std::byte* data, std::size_t size_bytes) noexcept {
  if (munmap(data, size_bytes) != 0)
    spdlog::error("{} of pinned memory could not be unmapped: {}", format_size(size_bytes),
                  std::generic_category().message(errno));
}

std::byte* map_anonymous(std::size_t size_bytes) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    fail(ErrorCode::out_of_host_memory, "{} of pinned host memory asked for, the system refused: {}",
         format_size(size_bytes), std::generic_category().message(errno));
  return static_cast<std::byte*>(data);
}

}  // namespace

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      part_(std::move(other.part_)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  DeviceBuffer taken(std::move(other));
  std::swap(device_, taken.device_);
  std::swap(data_, taken.data_);
  std::swap(size_bytes_, taken.size_bytes_);
  std::swap(part_, taken.part_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ == nullptr) return;
  if (data_ != nullptr) device_->do_free(data_, size_bytes_);
  device_->memory_.release(size_bytes_, part_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      part_(std::move(other.part_)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  PinnedBuffer taken(std::move(other));
  std::swap(device_, taken.device_);
  std::swap(data_, taken.data_);
  std::swap(size_bytes_, taken.size_bytes_);
  std::swap(part_, taken.part_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (device_ == nullptr) return;
  if (data_ != nullptr) {
    if (!device_->do_unregister(data_, size_bytes_)) return;
    unmap(data_, size_bytes_);
    device_->pinned_bytes_ -= size_bytes_;
  }
  device_->host_memory_->release(size_bytes_, part_);
}

Device::Device(DeviceKind kind, std::string name, std::optional<std::size_t> memory_limit_bytes,
               std::shared_ptr<HostMemoryBudget> host_memory, std::string limit_source)
    : kind_(kind),
      name_(std::move(name)),
      memory_(kDeviceMemory, memory_limit_bytes, std::move(limit_source)),
      host_memory_(host_memory != nullptr ? std::move(host_memory) : process_host_memory()) {}

// In both, the buffer owns the booking before it owns the bytes.

DeviceBuffer Device::allocate(std::size_t size_bytes, std::string_view part) {
  if (size_bytes == 0) return {};
  std::string name(part);
  memory_.reserve(size_bytes, name);
  DeviceBuffer buffer(this, size_bytes, std::move(name));
  buffer.data_ = do_allocate(size_bytes);
  return buffer;
}

PinnedBuffer Device::allocate_pinned(std::size_t size_bytes, std::string_view part) {
  if (size_bytes == 0) return {};
  std::string name(part);
  host_memory_->reserve(size_bytes, name);
  PinnedBuffer buffer(this, size_bytes, std::move(name));
  std::byte* data = map_anonymous(size_bytes);
  try {
    do_register(data, size_bytes);
  } catch (...) {
    unmap(data, size_bytes);
    throw;
  }
  buffer.data_ = data;
  pinned_bytes_ += size_bytes;
  return buffer;
}

}  // namespace lamina
