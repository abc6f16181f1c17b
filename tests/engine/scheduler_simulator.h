#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/collective_ledger.h"
#include "engine/lockstep/pass_scheduler.h"
#include "engine/simulated_rank.h"

namespace lamina::testing {

struct SimulatedFault {
  enum class Kind {
    reported,  ///< the rank meets a device error, tells it and ends
    killed,    ///< the rank's process is gone
    stuck,     ///< its device goes no further, and nobody knows
  };
  Kind kind = Kind::reported;
  std::size_t rank = 0;
  std::size_t event = 0;  ///< before the simulation's n-th event
};

/// One lockstep group and all that happens to it.
struct Scenario {
  ParallelSizes sizes;
  bool gathers_weights = true;
  std::size_t samples_per_replica = 1;
  WavePolicy wave_policy = WavePolicy::ragged;
  std::vector<SimulatedStack> stacks;
  std::vector<SimulatedRequest> requests;  ///< ids ascend with arrivals
  std::vector<std::size_t> memory_bytes;   ///< for activations, of each rank
  std::size_t slots = 2;
  double link_bytes_per_second = 25e9;
  double gather_bytes_per_second = 200e9;
  nanoseconds control_latency{20'000};  ///< of a round
  double jitter = 0;                    ///< of compute and of the control plane
  std::uint64_t seed = 0;
  std::optional<SimulatedFault> fault;
  std::optional<PlantedSwap> swap;
};

inline constexpr nanoseconds kNoticeTime{1'000'000};         ///< until a told fault is known everywhere, at most
inline constexpr nanoseconds kLossTime{100'000'000};         ///< until a dead peer is noticed, at most
inline constexpr nanoseconds kReasonGrace{2'000'000'000};    ///< that survivors wait for a reason
inline constexpr nanoseconds kWatchdogTime{10'000'000'000};  ///< after which a collective counts as stuck

struct RankResult {
  RankLedger ledger;
  std::map<RequestId, std::optional<Failure>> settled;
  std::map<RequestId, std::size_t> visits;  ///< of units, by sample
  std::optional<Fault> fault;               ///< with which its group failed
  bool died = false;
  std::optional<nanoseconds> ended_at;
  std::size_t held_bytes = 0;              ///< at its end
  std::vector<nanoseconds> pass_ends;      ///< of each pass
  std::vector<nanoseconds> pass_computes;  ///< compute in it
};

struct SimulationResult {
  std::vector<RankResult> ranks;
  /// What must not be: a deadlock, collectives that do not match, a request settled twice, a sample that runs without
  /// memory. One sentence each.
  std::vector<std::string> faults;
  std::optional<nanoseconds> fault_at;  ///< when the scenario's fault struck
  std::size_t events = 0;
  CouplingReport coupling;
};

/// Plays the scenario on virtual time: the real scheduler of every rank, simulated devices and communication.
/// Deterministic.
SimulationResult simulate(const Scenario& scenario);

}  // namespace lamina::testing
