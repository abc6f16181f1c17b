#include "device/cuda/host_work.h"

#include <fmt/format.h>

#include <utility>

namespace lamina::cuda {

void HostWork::push(std::string name, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  pieces_.push_back({std::move(name), std::move(work)});
}

void HostWork::drop_newest() noexcept {
  const std::lock_guard lock(mutex_);
  pieces_.pop_back();
}

void HostWork::run_oldest() noexcept {
  Piece piece;
  bool skips = false;
  {
    const std::lock_guard lock(mutex_);
    piece = std::move(pieces_.front());
    pieces_.pop_front();
    skips = error_.has_value();
  }
  if (!skips) run(piece);
}

std::optional<Error> HostWork::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, std::nullopt);
}

void HostWork::run(const Piece& piece) noexcept {
  try {
    piece.work();
  } catch (const Error& error) {
    note(error);
  } catch (const std::exception& error) {
    note(Error(ErrorCode::device, fmt::format("'{}' failed: {}", piece.name, error.what())));
  } catch (...) {
    note(Error(ErrorCode::device, fmt::format("'{}' failed", piece.name)));
  }
}

void HostWork::note(Error error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
}

}  // namespace lamina::cuda
