#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "comm/topology.h"
#include "engine/collective_ledger.h"
#include "engine/lockstep/pass_scheduler.h"

namespace lamina::testing {

using std::chrono::nanoseconds;

struct SimulatedStack {
  std::vector<std::size_t> unit_bytes;
};

/// The sample of a request meets a bad value on one rank of its replica, in its n-th visit of a unit.
struct SimulatedFailure {
  std::size_t rank_of_replica = 0;
  std::size_t visit = 0;
};

struct SimulatedRequest {
  ScheduledRequest request;
  nanoseconds arrival{0};
  std::size_t memory_bytes = 0;      ///< activations, on each rank
  std::size_t collective_bytes = 0;  ///< of each of its model collectives
  std::optional<nanoseconds> cancelled_at;
  std::optional<SimulatedFailure> failure;
};

/// One rank enters two collectives that follow each other in the wrong order.
struct PlantedSwap {
  std::size_t rank = 0;
  std::size_t collective = 0;
};

enum class LaneKind : std::size_t { copy, collectives, compute };
inline constexpr std::size_t kLaneCount = 3;

/// Work may start when so much of a lane is done.
struct LanePoint {
  LaneKind lane = LaneKind::copy;
  std::size_t count = 0;
};

/// Work that a rank has enqueued on one of its lanes.
struct LaneItem {
  enum class Kind { copy, collective, compute, leave };
  Kind kind = Kind::copy;
  nanoseconds duration{0};
  std::array<LanePoint, 2> needs;
  CollectiveRecord collective;
  std::uint64_t pass = 0;
  std::size_t unit = 0;
  std::size_t units = 0;  ///< of the pass
  RequestId sample = 0;
  std::size_t visit = 0;  ///< of the sample's life
};

/// A device queue: in order, one at a time.
struct Lane {
  std::vector<LaneItem> items;
  std::size_t done = 0;
  bool busy = false;
};

/// What all ranks of a simulation share.
struct SimulatedWorld {
  const Topology& topology;
  const std::vector<SimulatedStack>& stacks;
  const std::map<RequestId, SimulatedRequest>& requests;
  std::optional<GroupKind> gathers;  ///< over which group; none: whole units are copied
  double link_bytes_per_second = 0;
  double gather_bytes_per_second = 0;
  std::size_t slots = 2;
  double jitter = 0;  ///< compute takes up to this share longer
};

/// Visits that the host enqueues ahead of the device.
inline constexpr std::size_t kVisitsAhead = 2;

/// The rank loop of a simulation: what a rank enqueues for the passes it is told to run, in which order, and where it
/// waits for the next decision. The order is a function of the passes alone, never of time.
class SimulatedRank {
 public:
  SimulatedRank(const SimulatedWorld& world, std::size_t rank, std::uint64_t seed);

  void run_pass(PassPlan plan);
  void rest();
  /// The device is done with the next visit.
  void left_unit();
  void plant_swap(std::size_t collective) { swap_at_ = collective; }

  /// The unit of a stack whose leaving makes its pass close: before the point where the rank waits.
  std::size_t closing_unit(std::size_t units) const;

  const RankGroup& group(GroupKind kind) const { return groups_.at(kind); }

  std::array<Lane, kLaneCount> lanes;
  RankLedger ledger;

 private:
  Lane& lane(LaneKind kind) { return lanes[static_cast<std::size_t>(kind)]; }
  std::size_t waiting_unit(std::size_t units) const;
  std::size_t units_of(std::size_t pass) const { return world_.stacks[passes_[pass].stack].unit_bytes.size(); }
  void enqueue();
  void fetch_up_to(std::size_t visit, std::size_t last_pass);
  void fetch();
  void visit(const PassPlan& plan, std::size_t unit);
  void compute(const Seat& seat, const PassPlan& plan, std::size_t unit, LanePoint ready);
  LanePoint model_collectives(const Seat& seat, const PassPlan& plan, std::size_t unit);
  LanePoint push(LaneKind kind, LaneItem item);
  LanePoint enter(GroupKind kind, CollectiveOp op, std::size_t bytes, std::uint64_t tag, nanoseconds duration,
                  LanePoint need);
  LanePoint push_collective(LaneItem item);

  const SimulatedWorld& world_;
  std::size_t replica_;
  std::map<GroupKind, RankGroup> groups_;  // those that run collectives
  std::mt19937_64 random_;
  std::vector<PassPlan> passes_;
  std::size_t rests_behind_ = 0;  // passes decided when nothing was to follow them, for then
  std::size_t pass_ = 0;          // the next visit to enqueue
  std::size_t unit_ = 0;
  std::size_t visits_done_ = 0;
  std::size_t fetch_pass_ = 0;  // the next unit to fetch
  std::size_t fetch_unit_ = 0;
  std::vector<LanePoint> ready_;  // of each visit
  std::vector<LanePoint> left_;
  std::map<GroupKind, std::size_t> sequences_;
  std::optional<std::size_t> swap_at_;
  std::size_t entered_ = 0;
  std::optional<LaneItem> held_back_;
};

}  // namespace lamina::testing
