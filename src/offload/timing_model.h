#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace lamina {

/// What crosses the link in place of a unit's image: segments that are decoded one by one, each once it has arrived.
struct EncodedCost {
  std::size_t wire_bytes = 0;
  std::size_t segments = 1;            ///< of about equal size
  std::chrono::nanoseconds decode{0};  ///< of the whole unit
};

/// What the virtual-time model knows of one unit of a stack.
struct UnitCost {
  std::size_t image_bytes = 0;          ///< on the device
  std::chrono::nanoseconds compute{0};  ///< for all samples of the pass together
  bool resident = false;
  std::optional<EncodedCost> encoded = std::nullopt;  ///< nullopt: the image itself crosses the link

  std::size_t wire_bytes() const noexcept { return encoded ? encoded->wire_bytes : image_bytes; }
};

/// All-gather of shards: each rank copies 1/ranks of a chunk over its link, then the chunk is gathered while the next
/// one is copied.
struct GatherCost {
  std::size_t ranks = 1;
  double bytes_per_second = 0;  ///< of the gathered unit
  std::size_t chunks = 1;       ///< of each unit, whose size is padded to `ranks * chunks`; encoded: its segments
};

struct TimingInputs {
  std::vector<UnitCost> units;  ///< in visiting order
  std::size_t ring_bytes = 0;   ///< at least the largest streamed unit
  double link_bytes_per_second = 0;
  std::optional<GatherCost> gather;
  std::size_t landing_segments = 1;  ///< of encoded units that have room on the device until they are decoded
  std::size_t passes = 1;            ///< traversals back to back, each announced when the one before it begins
};

/// One visit, on a clock that starts with the first fetch. For resident units the copy times are zero.
struct VisitTiming {
  std::size_t pass = 0;
  std::size_t unit = 0;
  std::chrono::nanoseconds copy_begin{0};
  std::chrono::nanoseconds copy_end{0};
  std::chrono::nanoseconds ready{0};  ///< copy_end, or the end of gathering and decoding
  std::chrono::nanoseconds compute_begin{0};
  std::chrono::nanoseconds compute_end{0};
  std::chrono::nanoseconds stall{0};  ///< compute waited this long for `ready`
};

/// What the host enqueues, in its order: the copy of a unit, or the compute of a visit.
struct StreamAction {
  enum class Kind { fetch, compute };
  Kind kind = Kind::fetch;
  std::size_t pass = 0;
  std::size_t unit = 0;
  bool operator==(const StreamAction&) const = default;
};

struct TimingPrediction {
  std::vector<VisitTiming> visits;  ///< in order
  std::vector<StreamAction> actions;
  std::chrono::nanoseconds total{0};        ///< end of the last visit
  std::chrono::nanoseconds stall{0};        ///< sum over all visits
  std::chrono::nanoseconds steady_pass{0};  ///< duration of the last pass, from the end of the one before
  std::size_t copied_bytes = 0;             ///< over the link of one rank, all passes
};

/// Time of `size_bytes` at a rate, rounded up to a nanosecond: the one formula for transfers, here and on the CPU
/// device's virtual clock. Throws invalid_argument for a rate that is not positive or too small to tell the time.
std::chrono::nanoseconds transfer_time(std::size_t size_bytes, double bytes_per_second);

/// Plays the block stream on a virtual clock: lanes of compute and copies, of gathers and decoding where there are
/// such, each in order. The host takes no time. It issues a fetch as soon as the ring has room for the next streamed
/// unit of this pass or the next, and gives a unit's bytes back when its compute is enqueued; a copy then waits on its
/// lane until the former occupants of its bytes have been computed. A pure function.
///
/// For given units and ring the order of events is fixed, so a faster link or compute never ends later. Where all units
/// are equal, neither does a larger ring or a further resident; with unequal ones places may change for the worse.
/// Throws invalid_argument for a rate that is not positive, a streamed unit that is empty or larger than the ring, or
/// an encoded one that is empty or has no room to land.
TimingPrediction predict_timing(const TimingInputs& inputs);

}  // namespace lamina
