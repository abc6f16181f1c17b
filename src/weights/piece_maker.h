#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "tensor/tensor_spec.h"

namespace lamina {

/// The bytes of `tensor` from `offset_bytes` on, a whole number of elements.
using TensorFiller =
    std::function<void(const TensorSpec& tensor, std::size_t offset_bytes, std::span<std::byte> bytes)>;

/// Makes the bytes of tensors on a thread of its own, a few pieces ahead of the one thread that takes them. Tensors and
/// filler outlive it; the filler is called by that thread alone, in order.
class PieceMaker {
 public:
  static constexpr std::size_t kPieceBytes = kMiB;
  static constexpr std::size_t kPieces = 4;

  PieceMaker(std::span<const TensorSpec> tensors, const TensorFiller& fill);
  /// Ends the thread behind the piece it is at.
  ~PieceMaker() = default;
  PieceMaker(const PieceMaker&) = delete;
  PieceMaker& operator=(const PieceMaker&) = delete;

  /// The next bytes, at most a piece and of one tensor, until the next call; nullopt behind the last. Throws what the
  /// filler threw, once the pieces before are taken.
  std::optional<std::span<const std::byte>> next();

 private:
  void run(const std::stop_token& stop, std::span<const TensorSpec> tensors, const TensorFiller& fill);
  /// A buffer to fill, or nullptr when asked to stop.
  std::vector<std::byte>* wait_for_room(const std::stop_token& stop);
  void publish(std::size_t size_bytes);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::array<std::vector<std::byte>, kPieces> buffers_;  // piece i lies in i modulo kPieces
  std::array<std::size_t, kPieces> sizes_{};
  std::size_t made_ = 0;
  std::size_t returned_ = 0;  // pieces whose buffers may be filled again
  bool has_taken_ = false;    // piece `returned_` is with the taker
  bool is_done_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  // goes first: it uses all of the above
};

}  // namespace lamina
