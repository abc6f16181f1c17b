#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device.h"
#include "lamina/engine.h"
#include "lamina/error.h"
#include "offload/offload_plan.h"
#include "offload/pinned_images.h"
#include "weights/weight_binding.h"

namespace lamina {

/// The pinned images that the ranks of one process share where each copies whole units. Each is packed and registered
/// once, by the first rank that asks for it while the others wait; ranks share what has the same plan, so those of a
/// tensor-parallel group have a set for each slice. The first failure is everybody's. Thread safe; outlives the ranks
/// and their devices.
class HostImages {
 public:
  struct Part {
    const OffloadPlan& plan;
    const std::vector<WeightBinding>& bindings;
  };
  /// What loading is going to take that nobody has taken yet.
  struct Missing {
    std::size_t weight_bytes = 0;  ///< of images that are to be packed
    std::size_t ranks = 0;         ///< whose own memory is not accounted for
  };
  using Images = std::shared_ptr<const PinnedImages>;

  /// For `ranks` ranks. `create_device` makes the device that the memory is registered with, when the first rank loads.
  HostImages(std::size_t ranks, std::function<std::unique_ptr<Device>()> create_device);

  /// What the first rank chooses, for all: later ones would find its images in the memory that is left.
  HostBackingChoice backing(const std::function<HostBackingChoice()>& choose);

  /// The images of `parts`, one rank at a time. `prepare` is called before any is packed; it may refuse.
  std::vector<Images> load(const std::vector<Part>& parts, const std::function<void(const Missing&)>& prepare);

  std::size_t ranks() const noexcept { return ranks_; }
  /// Pinned bytes of all images so far.
  std::size_t size_bytes() const;

 private:
  struct Packed {
    OffloadPlan plan;
    Images images;
  };

  template <typename Action>
  auto as_one(Action action);
  const Packed* find(const OffloadPlan& plan) const;
  Images find_or_pack(const Part& part);

  const std::size_t ranks_;
  const std::function<std::unique_ptr<Device>()> create_device_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::optional<HostBackingChoice> backing_;
  bool ranks_are_accounted_ = false;
  std::unique_ptr<Device> device_;
  std::vector<Packed> packed_;
};

}  // namespace lamina
