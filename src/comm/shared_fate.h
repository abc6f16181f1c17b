#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lamina/error.h"

namespace lamina {

/// What groups have in common that end together: the first reason, for which all of them ended. Thread safe.
class SharedFate {
 public:
  using Listener = std::function<void(const Error& reason)>;

  /// While it lives, its listener may be called.
  class Subscription {
   public:
    Subscription(std::shared_ptr<SharedFate> fate, Listener listener);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    std::shared_ptr<SharedFate> fate_;
    Listener listener_;
  };

  /// Ends all groups, unless they have ended. Listeners are called on this thread, those that subscribed first first,
  /// so the caller holds no lock that one of them takes.
  void end(const Error& reason) noexcept;

  std::optional<Error> reason() const;
  /// Throws the reason, if there is one.
  void check() const;

 private:
  void add(const Listener& listener);
  void remove(const Listener& listener) noexcept;

  mutable std::mutex reason_mutex_;
  std::optional<Error> reason_;
  std::mutex listeners_mutex_;  // held while they are called, so that none is called that has gone
  std::vector<const Listener*> listeners_;
};

}  // namespace lamina
