#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "device/cpu/progress.h"

namespace lamina::cpu {

/// One thread that runs tasks in the order in which they were pushed. Tasks must not throw. Destruction runs what is
/// still queued. One thread pushes; any thread but the worker's own may `drain`.
class SerialWorker {
 public:
  /// Throws unavailable naming `purpose` where the system gives no thread.
  explicit SerialWorker(std::string_view purpose);
  ~SerialWorker();
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(std::function<void()> task);
  /// Blocks until all tasks pushed so far are done and destroyed.
  void drain() const { done_.wait_for(pushed_.value()); }

 private:
  struct Node {
    std::function<void()> task;
    std::unique_ptr<Node> next;
  };

  void run();

  // The worker owns the list, from the task it took last; the pusher knows the other end. `pushed_` hands nodes over.
  std::unique_ptr<Node> taken_ = std::make_unique<Node>();
  Node* newest_ = taken_.get();
  Progress pushed_;
  Progress done_;
  bool closing_ = false;  ///< the worker's own
  std::thread thread_;
};

}  // namespace lamina::cpu
