#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "device/stream.h"
#include "offload/event_pool.h"
#include "offload/stream_statistics.h"
#include "offload/timing_model.h"
#include "offload/unit_source.h"
#include "offload/weight_ring.h"
#include "tensor/parameter.h"

namespace lamina {

/// One unit as the stream sees it: the parameters to repoint, and where its bytes come from.
struct UnitBinding {
  std::vector<Parameter*> parameters;        ///< one per group
  std::vector<std::size_t> offsets;          ///< of each parameter in the unit's image
  std::size_t wire_bytes = 0;                ///< that cross the links of all ranks for one fetch, padding included
  std::size_t image_bytes = 0;               ///< of the image on the device
  const std::byte* resident_data = nullptr;  ///< the image on the device, or nullptr: the unit streams
};

struct BlockStreamOptions {
  std::size_t ring_bytes = 0;    ///< 0 only where nothing streams
  bool poison_released = false;  ///< fill a unit's ring bytes with NaN when it leaves
  bool record_timeline = false;  ///< keep the times of every visit
};

class BlockStream;

/// A unit's parameters are bound to device memory while the lease lives; compute enqueued meanwhile on the compute
/// stream may use them. Move-only.
class UnitLease {
 public:
  UnitLease(UnitLease&& other) noexcept;
  UnitLease& operator=(UnitLease&&) = delete;
  /// Leaves without prefetching where `leave` was not called (an exception is on its way).
  ~UnitLease();

  /// Parameters become placeholders again, the unit's bytes are free once the compute enqueued so far is done, and
  /// prefetching goes on. Throws device where a copy is refused.
  void leave();

 private:
  friend class BlockStream;
  explicit UnitLease(BlockStream& stream) : stream_(&stream) {}
  BlockStream* stream_;
};

/// Walks the stacks of one model part, unit by unit, with the weights of the next units on their way. It owns the ring
/// and the order of copies; the caller owns the loop:
///
///     stream.begin_pass(stack);
///     stream.announce_next(stack);                  // the head of the next pass may be fetched
///     for (unit ...) { UnitLease lease = stream.enter(unit); ...enqueue compute...; lease.leave(); }
///     stream.end_pass();
///
/// Nothing blocks the host inside a pass: `enter` makes the compute stream wait for the unit's copy, a copy waits on
/// the copy stream until the bytes it overwrites are free. Entering units out of order, skipping and repeating them is
/// legal and counted. Where the source gathers, the units of announced passes are gathered in order, skipped ones too:
/// going back, and another pass than the one announced, are errors. One thread uses a block stream; streams, source,
/// parameters and resident memory outlive it.
class BlockStream {
 public:
  /// `source` may be null where nothing streams.
  BlockStream(Device& device, Stream& compute, Stream& copy, UnitSource* source,
              std::vector<std::vector<UnitBinding>> stacks, const BlockStreamOptions& options);
  /// Waits for both streams.
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  /// Starts a traversal of `stack`. Waits for the pass before the last one, so the host runs at most two passes ahead.
  void begin_pass(std::size_t stack);
  /// The pass after this one; fetches of its head begin as soon as this pass's are all issued and the ring has room.
  /// Announcing one and beginning another discards what was fetched.
  void announce_next(std::size_t stack);
  UnitLease enter(std::size_t unit);
  void end_pass();
  /// All fetches of the running pass are issued: those of an announced one follow, in the order of the stack and the
  /// ring alone.
  bool is_fetched() const noexcept { return to_fetch_.empty() || to_fetch_.front().pass != pass_; }
  bool is_running() const noexcept { return running_stack_.has_value(); }
  /// Gives up the running pass after an exception: everything fetched, announced or counted is forgotten. Both streams
  /// are idle and no unit is leased.
  void abandon_pass();

  std::size_t ring_bytes() const noexcept { return ring_ ? ring_->capacity_bytes() : 0; }

  /// Waits for both streams' work so far, throws its first error, reports the visits and starts counting again. No pass
  /// is running.
  StreamStatistics take_statistics();
  /// With `record_timeline`: those visits in order, on the device's clock, passes counted from 0. Waits for them; taken
  /// before the statistics.
  std::vector<VisitTiming> take_timeline();
  /// Stall of the passes that `begin_pass` has waited for.
  std::chrono::nanoseconds stall_so_far() const noexcept { return statistics_.stall; }

 private:
  friend class UnitLease;

  struct PassUnit {
    std::size_t pass = 0;
    UnitRef ref;
    bool operator==(const PassUnit&) const = default;
  };
  /// A unit in the ring or on its way there, in ring order.
  struct Fetched {
    PassUnit unit;
    const std::byte* data = nullptr;
    std::shared_ptr<Event> copy_begin;
    std::shared_ptr<Event> copy_end;
    std::shared_ptr<Event> ready;  // copy_end, or the end of the source's own work
    PackedPieces pieces;
  };
  /// A visit whose times have not been read yet.
  struct Visit {
    PassUnit unit;
    std::shared_ptr<Event> copy_begin;  // with copy_end, ready and wait_*: only where the unit streams
    std::shared_ptr<Event> copy_end;
    std::shared_ptr<Event> ready;
    std::shared_ptr<Event> wait_begin;
    std::shared_ptr<Event> wait_end;
    std::shared_ptr<Event> free;
    PackedPieces pieces;
  };

  bool gathers() const noexcept { return completion_ != nullptr && completion_->ranks > 1; }
  const UnitBinding& binding(UnitRef ref) const { return stacks_[ref.stack][ref.unit]; }
  void queue_fetches(PassUnit first);
  void prefetch();
  bool try_fetch(const PassUnit& unit);
  void fetch(Fetched& fetched, std::byte* place);
  void count_fetch(UnitRef ref);
  void discard_oldest();
  void discard_fetched();
  Fetched& claim(const PassUnit& unit);
  Fetched& claim_in_order(const PassUnit& unit);
  void discard_rest_of_pass();
  void count_order(std::size_t unit);
  void release_lease();
  void leave_lease();
  void harvest(std::size_t before_pass);
  static void add_packing(const Visit& visit, UnitStatistics& unit);
  void reset_statistics();

  Stream& compute_;
  Stream& copy_;
  UnitSource* source_;
  const Completion* completion_;  // the source's; null: a copy completes a fetch
  std::vector<std::vector<UnitBinding>> stacks_;
  BlockStreamOptions options_;
  EventPool events_;
  std::optional<WeightRing> ring_;

  std::deque<PassUnit> to_fetch_;
  std::deque<Fetched> fetched_;
  std::deque<Visit> visits_;
  std::size_t pass_ = 0;  // number of the running or last pass; the first is 1
  std::optional<std::size_t> running_stack_;
  std::optional<std::size_t> announced_stack_;
  std::size_t next_unit_ = 0;  // behind the furthest unit entered in this pass
  std::optional<PassUnit> leased_;
  std::size_t passes_before_ = 0;  // passes that earlier statistics told of
  StreamStatistics statistics_;
  std::vector<VisitTiming> timeline_;
};

}  // namespace lamina
