#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.h"
#include "device/event.h"
#include "device/stream.h"
#include "offload/ring_layout.h"
#include "offload/watched_range.h"

namespace lamina {

/// A FIFO of device bytes for streamed units. It owns the memory and knows when each byte may be overwritten: bytes of
/// a unit that was used are handed to the next copy together with a wait for the unit's `free` event, so the host can
/// run ahead of the device. Watched by the device's order checker. Used by the launching thread.
class WeightRing {
 public:
  WeightRing(Device& device, std::size_t capacity_bytes);

  std::size_t capacity_bytes() const noexcept { return layout_.capacity_bytes(); }

  /// Room behind the newest occupant for a copy enqueued next on `copy`, which is made to wait until the room's former
  /// occupants are free; nullptr while it is still occupied. `size_bytes` is at most the capacity.
  std::byte* push(std::size_t size_bytes, Stream& copy);

  /// The oldest occupant's bytes may be overwritten once `free` is reached.
  void retire_oldest(std::shared_ptr<Event> free);
  /// Takes back the newest occupant: only copies on the stream given to `push` touched its bytes.
  void drop_newest() { layout_.pop_newest(); }

 private:
  /// Bytes whose last user may not have reached `free` yet.
  struct Retired {
    RingLayout::Occupant bytes;
    std::shared_ptr<Event> free;
  };

  DeviceBuffer memory_;
  WatchedRange watched_;
  RingLayout layout_;
  std::vector<Retired> retired_;
};

}  // namespace lamina
