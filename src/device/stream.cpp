#include "device/stream.h"

#include <utility>

#include "base/error.h"
#include "device/device.h"
#include "device/event.h"

namespace lamina {

Stream::Stream(Device& device, std::string name)
    : device_(device), order_(device.order()), lane_(order_.add_lane(name)), name_(std::move(name)) {}

Stream::~Stream() {
  order_.remove_lane(lane_);
}

void Stream::copy_to_device_async(std::byte* device_destination, const std::byte* host_source, std::size_t size_bytes,
                                  std::string_view label) {
  copy_async(CopyDirection::to_device, device_destination, host_source, size_bytes, label);
}

void Stream::copy_to_host_async(std::byte* host_destination, const std::byte* device_source, std::size_t size_bytes,
                                std::string_view label) {
  copy_async(CopyDirection::to_host, host_destination, device_source, size_bytes, label);
}

void Stream::copy_within_device_async(std::byte* destination, const std::byte* source, std::size_t size_bytes,
                                      std::string_view label) {
  copy_async(CopyDirection::within_device, destination, source, size_bytes, label);
}

void Stream::copy_async(CopyDirection direction, std::byte* destination, const std::byte* source,
                        std::size_t size_bytes, std::string_view label) {
  if (size_bytes == 0) return;
  const Access access{label, {{source, size_bytes}}, {{destination, size_bytes}}};
  order_.check(lane_, access);
  do_copy_async(direction, destination, access);
  order_.note(lane_, access);
}

void Stream::fill_async(std::byte* device_destination, std::size_t size_bytes, std::byte value,
                        std::string_view label) {
  if (size_bytes == 0) return;
  const Access access{label, {}, {{device_destination, size_bytes}}};
  order_.check(lane_, access);
  do_fill_async(device_destination, value, access);
  order_.note(lane_, access);
}

void Stream::run_on_host_async(const Access& access, std::function<void()> work) {
  order_.check(lane_, access);
  do_run_on_host_async(access, std::move(work));
  order_.note(lane_, access);
}

void Stream::record(Event& event) {
  do_record(event);
  event.order_ = &order_;
  event.clock_ = order_.record(lane_);
}

void Stream::wait(Event& event) {
  expects(event.order_ == nullptr || event.order_ == &order_, "stream '{}' waits for event '{}' of another device",
          name_, event.name());
  if (do_wait(event) && event.order_ != nullptr) order_.join(lane_, event.clock_);
}

void Stream::synchronize() {
  // Joined first: where the work's error is thrown, the work is over too.
  order_.join(OrderChecker::kHost, order_.record(lane_));
  do_synchronize();
}

}  // namespace lamina
