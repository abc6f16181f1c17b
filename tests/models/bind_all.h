#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/device.h"
#include "device/stream.h"
#include "offload/offload_plan.h"
#include "tensor/parameter.h"
#include "weights/checkpoint.h"

namespace lamina::test {

/// All groups of a plan: outside first, then the stacks' units in order.
inline std::vector<ParameterGroup> all_groups(const OffloadPlan& plan) {
  std::vector<ParameterGroup> groups = plan.outside;
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) groups.insert(groups.end(), unit.groups.begin(), unit.groups.end());
  return groups;
}

/// Copies all weights of a plan from a checkpoint to the device and keeps them bound while it lives: a model without
/// any offloading.
class BoundWeights {
 public:
  BoundWeights(Device& device, Stream& stream, const Checkpoint& checkpoint, const OffloadPlan& plan,
               std::vector<Parameter*> parameters)
      : parameters_(std::move(parameters)) {
    const std::vector<ParameterGroup> groups = all_groups(plan);
    expects(groups.size() == parameters_.size(), "{} groups, {} parameters", groups.size(), parameters_.size());
    weights_ = device.allocate(padded_bytes(groups), "weights");
    const PinnedBuffer image = device.allocate_pinned(weights_.size_bytes(), "test");
    const std::map<std::string, Parameter*> by_name = parameters_by_name();
    std::size_t offset = 0;
    for (const ParameterGroup& group : groups) {
      pack(checkpoint, group, image.data() + offset);
      by_name.at(group.runtime.name)->bind(weights_.data() + offset);
      offset += padded_bytes({group});
    }
    stream.copy_to_device_async(weights_.data(), image.data(), image.size_bytes(), "weights");
    stream.synchronize();
  }

  ~BoundWeights() {
    for (Parameter* parameter : parameters_) parameter->unbind();
  }
  BoundWeights(const BoundWeights&) = delete;
  BoundWeights& operator=(const BoundWeights&) = delete;

 private:
  static std::size_t padded_bytes(const std::vector<ParameterGroup>& groups) {
    std::size_t size = 0;
    for (const ParameterGroup& group : groups) size += align_up(group.runtime.size_bytes(), 256);
    return size;
  }

  static void pack(const Checkpoint& checkpoint, const ParameterGroup& group, std::byte* destination) {
    for (std::size_t member = 0; member < group.members.size(); ++member) {
      const ConstTensorView stored = checkpoint.view(group.stored(member));
      if (group.slices.empty())
        std::memcpy(destination, stored.data(), stored.span_bytes());
      else
        group.slices[member].copy(stored, destination);
      destination += group.members[member].size_bytes();
    }
  }

  std::map<std::string, Parameter*> parameters_by_name() const {
    std::map<std::string, Parameter*> result;
    for (Parameter* parameter : parameters_) result[parameter->name()] = parameter;
    return result;
  }

  std::vector<Parameter*> parameters_;
  DeviceBuffer weights_;
};

}  // namespace lamina::test
