#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/event.h"
#include "device/stream.h"
#include "engine/lockstep/messages.h"
#include "engine/residency/part_host.h"
#include "engine/residency/stage_runner.h"
#include "lamina/generate.h"
#include "pipelines/pipeline.h"
#include "tensor/arena.h"

namespace lamina {

/// What a rank did on its device.
struct RankTotals {
  std::uint64_t passes = 0;
  std::size_t copied_bytes = 0;    ///< over its link, of passes
  std::size_t gathered_bytes = 0;  ///< of units that came whole from all ranks
  std::chrono::nanoseconds stall{0};
  std::size_t host_bytes = 0;  ///< pinned for weights
  std::size_t device_peak_bytes = 0;
  std::vector<std::chrono::nanoseconds> pass_ends;  ///< on the device's clock
};

/// A request as one rank sees it before anything runs.
struct PreparedRequest {
  std::vector<Leg> legs;
  std::optional<Error> refusal;  ///< why it can never run here
};

/// The device half of a rank: parts, samples and their memory, and the block loop over the passes that it is told to
/// run. One thread uses it.
class PassRunner {
 public:
  /// Loads the weights. Device and pipeline are the rank's own.
  PassRunner(std::unique_ptr<Device> device, std::unique_ptr<Pipeline> pipeline, const OffloadOptions& options,
             const std::optional<WeightSharing>& sharing);

  /// Stacks of all parts, in order; a part without one counts as one without units, since its weights come and go too.
  std::size_t stack_count() const noexcept { return stacks_.size(); }

  /// Before any pass, and again between passes when no sample holds memory: measures the requests and takes memory for
  /// up to `samples` of those that can run, as many as the device's limit leaves room for.
  std::vector<PreparedRequest> prepare(const std::vector<GenerateRequest>& requests, std::size_t samples);

  /// Books memory taken before for a sample of `request`, an index into those prepared.
  ReserveVote reserve(RequestId id, std::size_t request);
  void release(RequestId id);

  /// Samples that failed since the last call, for their values alone: whatever a stage throws while it takes them in or
  /// out that is no fault of device or program. Such a sample runs on, on the memory it has, until it is planned no
  /// more.
  std::vector<SampleFailure> take_failures() { return std::exchange(failures_, {}); }

  /// Runs a pass with `seats`, those of this rank's replica. `close` is called once, when the next pass must be known,
  /// and gives its stack where one follows. Returns when the pass is enqueued; where a sample's leg ends with it, when
  /// that is done and its results are in.
  void run(const PassPlan& plan, std::span<const Seat> seats, const std::function<std::optional<std::size_t>()>& close);
  /// Blocks until the last pass is over on the device; throws where it failed.
  void wait_for_pass();
  /// Of a sample whose last leg has ended, while its memory is held; none where it failed.
  std::optional<GenerateResult> result(RequestId id);

  /// Between passes: since the last call.
  RankTotals take_totals();

 private:
  struct StackPlace {
    std::size_t part = 0;
    std::size_t stack = 0;
    std::size_t units = 0;
  };
  struct Sample {
    std::unique_ptr<Generation> generation;
    std::size_t slot = 0;
    std::optional<Arena> arena;  ///< of the running leg
    bool failed = false;
  };

  std::size_t stack_index(const Stage& stage) const;
  PreparedRequest prepare(const GenerateRequest& request);
  void take_memory(std::size_t samples);
  void activate(std::size_t part);
  void run_units(const StackPlace& place, std::span<const Seat> seats, ops::OpContext& context,
                 const std::function<std::optional<std::size_t>()>& close);
  void attempt(RequestId id, const std::function<void()>& work);
  Stage& stage_of(const Seat& seat);
  bool ends_leg(const Seat& seat);
  void begin_leg(const Seat& seat);
  void end_leg(const Seat& seat, ops::OpContext& context);
  void count_statistics();

  std::unique_ptr<Device> device_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> copy_;
  PartHost host_;
  StageRunner stages_runner_;
  std::vector<StackPlace> stacks_;

  std::vector<GenerateRequest> requests_;
  std::vector<std::optional<Error>> refusals_;  // by request
  StageNeed most_;                              // of the requests that can run, by part of the memory
  std::size_t slot_bytes_ = 0;
  DeviceBuffer activations_;  // of all slots
  DeviceBuffer workspace_;
  std::vector<bool> slot_used_;
  std::map<RequestId, Sample> samples_;
  std::vector<SampleFailure> failures_;  // not taken yet

  std::optional<std::size_t> active_part_;
  std::unique_ptr<Event> pass_over_;
  RankTotals totals_;
};

}  // namespace lamina
