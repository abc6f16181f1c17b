#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/event.h"
#include "device/stream.h"

namespace lamina {

/// A unit by its place in a plan.
struct UnitRef {
  std::size_t stack = 0;
  std::size_t unit = 0;
  bool operator==(const UnitRef&) const = default;
};

/// A piece of a fetch that the host packs before it is copied. The copy stream waited for the packing from `wait_begin`
/// to `packed`, where that is later.
struct PackedPiece {
  std::shared_ptr<Event> pack_begin;
  std::shared_ptr<Event> packed;
  std::shared_ptr<Event> wait_begin;
};

/// What is packed on the way of one fetch; empty where a copy alone brings the unit.
using PackedPieces = std::vector<PackedPiece>;

/// What makes an image whole after its copy, on streams of the source's own: a gather, decoding, or both.
struct Completion {
  std::vector<Stream*> streams;  ///< in the order in which a fetch goes through them; the last one ends it
  std::size_t ranks = 1;         ///< each copies this fraction of what crosses the link; above 1, they gather it

  Stream& last() const { return *streams.back(); }
};

/// Where the weight images of one model part come from on the host. Used by the launching thread; must outlive the
/// copies it enqueued.
class UnitSource {
 public:
  virtual ~UnitSource() = default;

  /// Enqueues on `stream` the copy of a unit's whole image to `destination` on the device. Never waits for the device
  /// nor packs. Throws device where the copy is refused, and what `check` throws. Where images are gathered, all ranks
  /// fetch the same ones in the same order.
  virtual PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& stream) = 0;

  /// The same for the image of the weights outside the blocks.
  virtual void fetch_outside_async(std::byte* destination, Stream& stream) = 0;

  /// Null where a copy alone makes an image whole, on the stream given to the fetch.
  virtual const Completion* completion() const noexcept { return nullptr; }

  /// Throws the error that packing, gathering or decoding met, if any: bytes on the device are wrong since. Once a
  /// fetch is done, it is known whether that failed.
  virtual void check() const {}

  /// Host bytes held for this part.
  virtual std::size_t host_bytes() const = 0;
};

}  // namespace lamina
