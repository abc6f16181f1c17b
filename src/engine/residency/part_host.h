#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "lamina/engine.h"
#include "offload/active_part.h"
#include "pipelines/pipeline.h"
#include "weights/host_weight_plan.h"

namespace lamina {

class HostImages;

/// How the parts of a pipeline live on host and device.
struct OffloadOptions {
  bool stream = false;
  std::size_t ring_slots = 2;
  std::size_t resident_blocks = 0;
  ResidentPolicy resident_policy = ResidentPolicy::leading;
  HostBackingChoice host_backing = HostBackingChoice::automatic;
  LoadFacts load;  ///< all but `tensor_parallel_size` follow from the above and the parts
  bool poison_released = false;
  bool record_timeline = false;
  HostImages* images = nullptr;  ///< that ranks of this process share, unless weights are gathered; null: its own

  ResidencyOptions residency() const { return {stream, ring_slots, resident_blocks, resident_policy}; }
};

/// The ranks that hold one copy of the weights together.
struct WeightSharing {
  Communicator& ranks;  ///< of the offload group, for weights alone; at least two
  std::size_t chunks = 1;
  ShardPlace shards = ShardPlace::host;
};

/// Where a part's weights are while it is off the device, and why not in the checkpoint's files.
struct PartBacking {
  HostBacking backing = HostBacking::private_pinned;
  MappingRefusal refusal = MappingRefusal::none;
  std::string reason;
};

/// Owns the host images of a pipeline's parts, or its share in those of `OffloadOptions::images`, and decides when a
/// part is on the device. Streaming: a transformer's weights stay in the files where its plan proves that they can, all
/// others are pinned once; and a part is active only while a stage uses it. Not streaming: every part is loaded to the
/// device at the start and stays, and the host keeps no copy. One thread uses it; device, streams and pipeline outlive
/// it.
class PartHost {
 public:
  /// Every part's plan is made before any weight is read; a failed proof is logged. Once a plan is taken, a failure is
  /// a failure to start. Throws incompatible where mapping is demanded and refused; out_of_host_memory with the numbers
  /// by part before the first byte is allocated where loading, with the staging of the stages to come, cannot fit; what
  /// the parts' load hooks throw, which run next; out_of_device_memory, or what reading the checkpoint throws.
  ///
  /// With `sharing`, pinned memory keeps this rank's shards, or the device does, and weights become whole by gathering:
  /// all ranks activate and traverse the same parts in the same order. Shards on the host need streaming asked for;
  /// around those on the device blocks stream in any case, and no weight stays on the host.
  PartHost(Device& device, Stream& compute, Stream& copy, const std::vector<ModelPart>& parts,
           const OffloadOptions& options, const std::optional<WeightSharing>& sharing = std::nullopt);

  PartHost(const PartHost&) = delete;
  PartHost& operator=(const PartHost&) = delete;

  /// The part, set up, until `release`. One part at a time, unless parts stay.
  ActivePart& activate(std::size_t part);
  /// The part, activated and not released since.
  ActivePart& active(std::size_t part) { return *active_.at(part); }
  /// Ends the stage that `activate` began, whole or broken off: the streams are idle and without error afterwards, no
  /// pass is running, and parts that do not stay are freed.
  void release();

  PartMemory memory_of(std::size_t part) const;
  /// Device bytes that stay of parts other than `part`.
  std::size_t kept_bytes_besides(std::size_t part) const;
  const PartBacking& backing_of(std::size_t part) const { return backings_.at(part); }
  /// Host bytes held for weights, without images that are shared.
  std::size_t host_bytes() const;
  const OffloadOptions& options() const noexcept { return options_; }
  bool has_shards_on_device() const noexcept;

 private:
  void check_weights_fit() const;
  std::size_t bytes_that_stay(const PartMemory& memory) const noexcept;
  ResidencyOptions residency() const;
  bool shares_images() const noexcept;
  HostBackingChoice choose_backing() const;
  void prepare_loading(const std::vector<HostWeightPlan>& plans, const std::vector<MemoryNeed>& need) const;
  void load(std::vector<HostWeightPlan> plans);
  void load_shared(std::vector<HostWeightPlan> plans);
  std::unique_ptr<UnitSource> make_source(const ModelPart& part, HostWeightPlan plan);
  std::unique_ptr<ActivePart> set_up(std::size_t part, UnitSource& source);

  Device& device_;
  Stream& compute_;
  Stream& copy_;
  const std::vector<ModelPart>& parts_;
  OffloadOptions options_;
  std::optional<WeightSharing> sharing_;
  std::vector<PartBacking> backings_;                 // by part
  std::vector<std::unique_ptr<UnitSource>> sources_;  // streaming: by part
  std::vector<std::unique_ptr<ActivePart>> active_;   // by part
};

}  // namespace lamina
