#include "weights/piece_maker.h"

#include <algorithm>

namespace lamina {

PieceMaker::PieceMaker(std::span<const TensorSpec> tensors, const TensorFiller& fill) {
  for (std::vector<std::byte>& buffer : buffers_) buffer.resize(kPieceBytes);
  thread_ = std::jthread([this, tensors, &fill](const std::stop_token& stop) {
    std::exception_ptr error;
    try {
      run(stop, tensors, fill);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    is_done_ = true;
    changed_.notify_all();
  });
}

void PieceMaker::run(const std::stop_token& stop, std::span<const TensorSpec> tensors, const TensorFiller& fill) {
  for (const TensorSpec& tensor : tensors) {
    const std::size_t size = tensor.size_bytes();
    for (std::size_t offset = 0; offset < size; offset += kPieceBytes) {
      std::vector<std::byte>* buffer = wait_for_room(stop);
      if (buffer == nullptr) return;
      const std::size_t piece = std::min(kPieceBytes, size - offset);
      fill(tensor, offset, std::span(*buffer).first(piece));
      publish(piece);
    }
  }
}

std::vector<std::byte>* PieceMaker::wait_for_room(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const bool has_room = changed_.wait(lock, stop, [this] { return made_ - returned_ < kPieces; });
  return has_room && !stop.stop_requested() ? &buffers_[made_ % kPieces] : nullptr;
}

void PieceMaker::publish(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  sizes_[made_ % kPieces] = size_bytes;
  ++made_;
  changed_.notify_all();
}

std::optional<std::span<const std::byte>> PieceMaker::next() {
  std::unique_lock lock(mutex_);
  if (has_taken_) {
    ++returned_;
    has_taken_ = false;
    changed_.notify_all();
  }
  changed_.wait(lock, [this] { return made_ > returned_ || is_done_; });
  if (made_ > returned_) {
    has_taken_ = true;
    const std::size_t slot = returned_ % kPieces;
    return std::span<const std::byte>(buffers_[slot]).first(sizes_[slot]);
  }
  if (error_) std::rethrow_exception(error_);
  return std::nullopt;
}

}  // namespace lamina
