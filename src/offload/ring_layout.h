#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace lamina {

/// The arithmetic of a FIFO of bytes with a fixed capacity: occupants are contiguous, placed one behind the other, from
/// the start again where the end is too short, and leave in the order in which they came. An empty ring begins at 0, so
/// a place depends on the present occupants alone and a traversal packs alike whatever ran before it. Pure: used by the
/// ring on the device and by the virtual-time model alike.
class RingLayout {
 public:
  struct Occupant {
    std::size_t offset = 0;
    std::size_t size_bytes = 0;

    bool overlaps(const Occupant& other) const noexcept {
      return offset < other.offset + other.size_bytes && other.offset < offset + size_bytes;
    }
  };

  explicit RingLayout(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
  const std::deque<Occupant>& occupants() const noexcept { return occupants_; }

  /// Places `size_bytes` (1 .. capacity) behind the newest occupant and returns the offset, or nullopt where it would
  /// overlap an occupant.
  std::optional<std::size_t> push(std::size_t size_bytes);
  void pop_oldest();
  /// Takes back the newest occupant, as if it had never been pushed.
  void pop_newest();

 private:
  std::size_t capacity_bytes_;
  std::deque<Occupant> occupants_;
};

}  // namespace lamina
