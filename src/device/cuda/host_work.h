#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "lamina/error.h"

namespace lamina::cuda {

/// The host's work that waits in one stream, and the first error of it. The launching thread pushes; the driver's
/// thread runs the work, oldest first. The work is owned here, not by the driver, which forgets what it was given when
/// a device is lost.
class HostWork {
 public:
  void push(std::string name, std::function<void()> work);
  /// Takes the newest piece back, where it could not be enqueued.
  void drop_newest() noexcept;

  /// Runs the oldest piece, or skips it where one before it failed. Its captures are gone when this returns.
  void run_oldest() noexcept;

  /// The first error since the last call; work pushed later runs again.
  std::optional<Error> take_error();

 private:
  struct Piece {
    std::string name;
    std::function<void()> work;
  };

  void run(const Piece& piece) noexcept;
  void note(Error error);

  std::mutex mutex_;
  std::deque<Piece> pieces_;
  std::optional<Error> error_;
};

}  // namespace lamina::cuda
