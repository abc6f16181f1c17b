#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "device/device.h"
#include "device/stream.h"
#include "offload/block_stream.h"
#include "offload/offload_plan.h"
#include "offload/residents.h"
#include "offload/shard_layout.h"
#include "offload/unit_source.h"
#include "offload/watched_range.h"
#include "tensor/parameter.h"

namespace lamina {

/// Which weights of a part stay on the device while it is active.
struct ResidencyOptions {
  bool stream = false;         ///< false: everything is resident
  std::size_t ring_slots = 2;  ///< ring capacity in units of the largest streamed unit, at least 1
  std::size_t resident_blocks = 0;
  ResidentPolicy resident_policy = ResidentPolicy::leading;
  Sharding sharding;  ///< that of the source; images are padded to it
  ShardPlace shards = ShardPlace::host;
};

/// What a part needs of the device, computed without touching it.
struct PartMemory {
  std::size_t outside_bytes = 0;
  std::size_t resident_bytes = 0;  ///< of whole units
  std::size_t ring_bytes = 0;
  std::size_t shard_bytes = 0;              ///< of the rank's shards on the device, also while the part is inactive
  std::vector<std::vector<bool>> resident;  ///< by stack and unit

  std::size_t total_bytes() const noexcept { return outside_bytes + resident_bytes + ring_bytes + shard_bytes; }
};

PartMemory plan_memory(const OffloadPlan& plan, const ResidencyOptions& options);

/// A model part set up on the device: weights outside the blocks and resident units copied and bound or ready to bind,
/// a ring and a block stream for the rest. From the end of construction to destruction the outside parameters are
/// bound. One thread uses it; plan, parameters and streams outlive it, and so does
/// the source where something streams.
class ActivePart {
 public:
  struct Setup {
    Device& device;
    Stream& compute;
    Stream& copy;
    const OffloadPlan& plan;
    std::vector<Parameter*> parameters;  ///< those of the plan's groups, in any order
    UnitSource& source;
    ResidencyOptions residency;
    bool poison_released = false;
    bool record_timeline = false;
  };

  /// Returns when the resident weights are on the device. Throws out_of_device_memory, device, or internal where the
  /// model's parameters are not those of its plan.
  explicit ActivePart(const Setup& setup);
  ActivePart(const ActivePart&) = delete;
  ActivePart& operator=(const ActivePart&) = delete;

  const PartMemory& memory() const noexcept { return memory_; }
  BlockStream& stream() noexcept { return *stream_; }

 private:
  std::vector<std::vector<UnitBinding>> place_units(const Setup& setup);
  void load_outside(const Setup& setup);

  PartMemory memory_;
  DeviceBuffer outside_;
  DeviceBuffer resident_;
  WatchedRange watched_outside_;
  WatchedRange watched_resident_;
  /// Makes placeholders of them again, also where the constructor fails half-way.
  struct BoundParameters {
    std::vector<Parameter*> parameters;
    ~BoundParameters();
  };
  BoundParameters outside_parameters_;
  std::optional<BlockStream> stream_;
};

}  // namespace lamina
