#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lamina {

/// What one unit cost since the statistics were taken last.
struct UnitStatistics {
  std::uint64_t visits = 0;
  std::uint64_t fetches = 0;
  std::size_t copied_bytes = 0;         ///< host to device, over this rank's link
  std::size_t gathered_bytes = 0;       ///< of images that all ranks made whole together, padding included
  std::chrono::nanoseconds compute{0};  ///< from the unit being ready to its being left
  std::chrono::nanoseconds copy{0};     ///< of the fetches that were visited, waits for packing included
  std::chrono::nanoseconds stall{0};    ///< compute waited for the unit's `ready`
  std::chrono::nanoseconds packing{0};  ///< the host made the images of those fetches
  /// The part of `stall` in which the copy itself waited for packing.
  std::chrono::nanoseconds packing_stall{0};
};

/// The same for a block stream as a whole, and what was irregular.
struct StreamStatistics {
  std::vector<std::vector<UnitStatistics>> units;  ///< by stack and unit
  std::uint64_t passes = 0;
  std::size_t copied_bytes = 0;
  std::size_t gathered_bytes = 0;
  std::chrono::nanoseconds stall{0};
  std::uint64_t skipped_visits = 0;     ///< units passed over when they were due
  std::uint64_t repeated_visits = 0;    ///< enters of a unit at or behind the furthest so far
  std::uint64_t demand_fetches = 0;     ///< enters that found their unit neither in the ring nor on its way
  std::uint64_t discarded_fetches = 0;  ///< fetched, never entered
};

}  // namespace lamina
