#pragma once

#include <cstddef>

#include "device/stream.h"

namespace lamina {

/// A unit by its place in a plan.
struct UnitRef {
  std::size_t stack = 0;
  std::size_t unit = 0;
  bool operator==(const UnitRef&) const = default;
};

/// Where the weight images of one model part come from on the host. Used by the launching thread; must outlive the
/// copies it enqueued.
class UnitSource {
 public:
  virtual ~UnitSource() = default;

  /// Enqueues on `stream` the copy of a unit's whole image to `destination` on the device. Throws device where the copy
  /// is refused.
  virtual void fetch_async(UnitRef unit, std::byte* destination, Stream& stream) = 0;

  /// The same for the image of the weights outside the blocks.
  virtual void fetch_outside_async(std::byte* destination, Stream& stream) = 0;

  /// Host bytes held for this part.
  virtual std::size_t host_bytes() const = 0;
};

}  // namespace lamina
