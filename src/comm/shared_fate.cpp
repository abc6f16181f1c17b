#include "comm/shared_fate.h"

#include <utility>

namespace lamina {

SharedFate::Subscription::Subscription(std::shared_ptr<SharedFate> fate, Listener listener)
    : fate_(std::move(fate)), listener_(std::move(listener)) {
  fate_->add(listener_);
}

SharedFate::Subscription::~Subscription() {
  fate_->remove(listener_);
}

void SharedFate::end(const Error& reason) noexcept {
  {
    const std::lock_guard lock(reason_mutex_);
    if (reason_) return;
    reason_ = reason;
  }
  const std::lock_guard lock(listeners_mutex_);
  for (const Listener* listener : listeners_) (*listener)(reason);
}

std::optional<Error> SharedFate::reason() const {
  const std::lock_guard lock(reason_mutex_);
  return reason_;
}

void SharedFate::check() const {
  if (const std::optional<Error> ended = reason()) throw *ended;
}

/// One that comes late is told at once; where `end` runs meanwhile, perhaps twice.
void SharedFate::add(const Listener& listener) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(&listener);
  if (const std::optional<Error> ended = reason()) listener(*ended);
}

void SharedFate::remove(const Listener& listener) noexcept {
  const std::lock_guard lock(listeners_mutex_);
  std::erase(listeners_, &listener);
}

}  // namespace lamina
