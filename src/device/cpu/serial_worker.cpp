#include "device/cpu/serial_worker.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace lamina::cpu {

SerialWorker::SerialWorker(std::string_view purpose) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::unavailable, "no thread for {}: {}", purpose, error.what());
  }
}

SerialWorker::~SerialWorker() {
  push([this] { closing_ = true; });
  thread_.join();
}

void SerialWorker::push(std::function<void()> task) {
  newest_->next = std::make_unique<Node>(Node{std::move(task), nullptr});
  newest_ = newest_->next.get();
  pushed_.raise();
}

void SerialWorker::run() {
  for (std::uint32_t count = 1; !closing_; ++count) {
    pushed_.wait_for(count);
    taken_ = std::move(taken_->next);
    taken_->task();
    taken_->task = nullptr;
    done_.raise();
  }
}

}  // namespace lamina::cpu
