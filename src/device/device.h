#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/host_memory_budget.h"
#include "base/memory_budget.h"
#include "device/order_checker.h"

namespace lamina {

class Device;
class Event;
class Stream;

enum class DeviceKind { cpu, cuda };

/// Owner of a piece of device memory, booked under `part` in the device's budget. Move-only. Freeing waits for all work
/// enqueued on the device so far, so a buffer never dies under pending work.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  friend class Device;
  DeviceBuffer(Device* device, std::size_t size_bytes, std::string part)
      : device_(device), size_bytes_(size_bytes), part_(std::move(part)) {}

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  std::string part_;
};

/// Owner of page-locked host memory: an anonymous mapping of exactly the booked size (rounded up to a page by the
/// system), registered with the device and booked under `part` in the process's budget. Move-only. The same rule for
/// pending work holds.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  friend class Device;
  PinnedBuffer(Device* device, std::size_t size_bytes, std::string part)
      : device_(device), size_bytes_(size_bytes), part_(std::move(part)) {}

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  std::string part_;
};

/// One accelerator (or the CPU acting as one): its memory, its streams, its order checker. The device outlives
/// everything made from it. `allocate*` and `create_*` may be called from any thread.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const noexcept { return kind_; }
  /// "cpu", "cuda:0".
  const std::string& name() const noexcept { return name_; }

  MemoryBudget& memory() noexcept { return memory_; }
  HostMemoryBudget& host_memory() noexcept { return *host_memory_; }
  OrderChecker& order() noexcept { return order_; }

  /// 256-byte aligned, uninitialised. Throws out_of_device_memory.
  DeviceBuffer allocate(std::size_t size_bytes, std::string_view part);
  /// Page-aligned, zeroed; `part` is "weights", "staging" or "results". Throws out_of_host_memory.
  PinnedBuffer allocate_pinned(std::size_t size_bytes, std::string_view part);
  /// Bytes of pinned memory held now.
  std::size_t pinned_bytes() const noexcept { return pinned_bytes_.load(); }

  /// `name` appears in messages, traces and fault injection ("compute", "copy").
  virtual std::unique_ptr<Stream> create_stream(std::string name) = 0;
  virtual std::unique_ptr<Event> create_event(std::string name) = 0;

 protected:
  /// Without `host_memory`, pinned memory is booked in the process's shared budget. `limit_source` as in MemoryLimit.
  Device(DeviceKind kind, std::string name, std::optional<std::size_t> memory_limit_bytes,
         std::shared_ptr<HostMemoryBudget> host_memory, std::string limit_source = {});

 private:
  friend class DeviceBuffer;
  friend class PinnedBuffer;

  virtual std::byte* do_allocate(std::size_t size_bytes) = 0;
  virtual void do_free(std::byte* data, std::size_t size_bytes) noexcept = 0;
  /// Page-locks [data, data + size_bytes) and makes it known to the device.
  virtual void do_register(std::byte* data, std::size_t size_bytes) = 0;
  /// Waits for pending work first. False, with a line in the log, where the memory stays locked: it is then never
  /// unmapped, since the device may still reach it, and stays booked.
  virtual bool do_unregister(std::byte* data, std::size_t size_bytes) noexcept = 0;

  DeviceKind kind_;
  std::string name_;
  MemoryBudget memory_;
  std::shared_ptr<HostMemoryBudget> host_memory_;
  OrderChecker order_;
  std::atomic<std::size_t> pinned_bytes_{0};
};

}  // namespace lamina
