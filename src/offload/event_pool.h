#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/event.h"

namespace lamina {

/// Lends events by name and takes them back when their last holder lets go, so that a visit creates none once the pool
/// is warm. Used by the launching thread. The device outlives it and its events.
class EventPool {
 public:
  explicit EventPool(Device& device) : state_(std::make_shared<State>(device)) {}

  std::shared_ptr<Event> take(const std::string& name);

 private:
  struct State {
    explicit State(Device& owner) : device(owner) {}
    Device& device;
    std::map<std::string, std::vector<std::unique_ptr<Event>>> idle;
  };
  std::shared_ptr<State> state_;
};

}  // namespace lamina
