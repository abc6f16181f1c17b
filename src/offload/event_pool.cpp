#include "offload/event_pool.h"

namespace lamina {

std::shared_ptr<Event> EventPool::take(const std::string& name) {
  std::vector<std::unique_ptr<Event>>& idle = state_->idle[name];
  std::unique_ptr<Event> event;
  if (idle.empty()) {
    event = state_->device.create_event(name);
  } else {
    event = std::move(idle.back());
    idle.pop_back();
  }
  return {event.release(), [state = state_](Event* returned) { state->idle[returned->name()].emplace_back(returned); }};
}

}  // namespace lamina
