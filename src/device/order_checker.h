#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/access.h"

namespace lamina {

/// Proves, while work is being enqueued, that every use of watched memory is ordered after the uses it conflicts with.
///
/// Each stream, and the launching host thread, has a vector clock; recording an event stores its stream's clock,
/// waiting joins it; enqueued work also comes after all that the host has done or waited for. Two accesses of one
/// watched byte, at least one of them a write, must be ordered by such clocks: otherwise the wait between them is
/// missing, whether or not a run of the program happens to show it. The check is by construction independent of timing,
/// costs nothing on the device, and is on in all builds.
///
/// Only ranges given to `watch` are tracked (ring, staging, weights): other memory is private to one stream. Thread
/// safe; the host's clock assumes that one thread launches the device's work.
class OrderChecker {
 public:
  using Clock = std::vector<std::uint64_t>;
  /// Index of an execution lane: the host is lane 0, each stream has its own.
  using Lane = std::size_t;
  static constexpr Lane kHost = 0;

  OrderChecker();

  Lane add_lane(std::string name);
  /// The lane's work is done and no more will come; its number may be given to another stream.
  void remove_lane(Lane lane);

  void watch(MemoryRange range, std::string name);
  void unwatch(MemoryRange range);

  /// The work about to be enqueued on `lane`, or done by the host now: `check`, then `note`.
  void access(Lane lane, const Access& access);
  /// Throws internal naming both accesses, the lanes and the bytes where the order between `access` and an earlier use
  /// is missing.
  void check(Lane lane, const Access& access);
  /// Remembers uses that have passed `check`. On its own where a backend may still refuse the work in between.
  void note(Lane lane, const Access& access);

  /// The clock of an event recorded on `lane` now.
  Clock record(Lane lane);
  /// `lane` (the host, where it blocks on an event or a stream) comes after everything `clock` has seen.
  void join(Lane lane, const Clock& clock);

  /// Conflicting pairs of two lanes whose order was proven so far: lets a test assert that checking took place.
  std::uint64_t proven_pairs() const;

 private:
  struct LaneState {
    std::string name;
    Clock clock;
    bool in_use = true;
  };
  /// Bytes [begin, end) of a watched range, at the `time`-th access of the lane.
  struct Use {
    std::size_t begin = 0;
    std::size_t end = 0;
    Lane lane = 0;
    std::uint64_t time = 0;
    bool is_write = false;
    std::string name;

    bool overlaps(const Use& other) const { return begin < other.end && other.begin < end; }
  };
  /// `uses` holds, for every byte, the last write and the last read of each lane since: the ones before are ordered
  /// before these.
  struct Watched {
    const std::byte* begin = nullptr;
    std::size_t size_bytes = 0;
    std::string name;
    std::vector<Use> uses;
  };

  template <typename Visit>
  void for_each_watched_use(Lane lane, const Access& access, Visit visit);
  void check_use(const Watched& watched, const Use& use);
  static void note_use(Watched& watched, Use use);
  void inherit_host(Lane lane);

  mutable std::mutex mutex_;
  std::vector<LaneState> lanes_;
  std::vector<Watched> watched_;
  std::uint64_t proven_pairs_ = 0;
};

}  // namespace lamina
