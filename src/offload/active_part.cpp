#include "offload/active_part.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

using ParametersByName = std::unordered_map<std::string_view, Parameter*>;

ParametersByName index_parameters(const std::vector<Parameter*>& parameters) {
  ParametersByName index;
  for (Parameter* parameter : parameters) index.emplace(parameter->name(), parameter);
  return index;
}

std::vector<Parameter*> find_parameters(const std::vector<ParameterGroup>& groups, const ParametersByName& index) {
  std::vector<Parameter*> parameters;
  for (const ParameterGroup& group : groups) {
    const auto found = index.find(group.runtime.name);
    expects(found != index.end() && found->second->spec() == group.runtime,
            "the plan's parameter {} is not one of the model's", to_string(group.runtime));
    parameters.push_back(found->second);
  }
  return parameters;
}

}  // namespace

PartMemory plan_memory(const OffloadPlan& plan, const ResidencyOptions& options) {
  PartMemory memory;
  memory.outside_bytes = device_bytes(UnitLayout::of(plan.outside).size_bytes, options.sharding);
  std::size_t largest = 0;
  std::size_t streamed = 0;
  for (const Stack& stack : plan.stacks) {
    const std::vector<bool>& resident = memory.resident.emplace_back(
        options.stream ? choose_residents(plan, stack, options.resident_blocks, options.resident_policy)
                       : std::vector<bool>(stack.units.size(), true));
    for (std::size_t unit = 0; unit < stack.units.size(); ++unit) {
      const std::size_t size = device_bytes(UnitLayout::of(stack.units[unit].groups).size_bytes, options.sharding);
      if (resident[unit]) {
        memory.resident_bytes += size;
      } else {
        streamed += size;
        largest = std::max(largest, size);
      }
    }
  }
  memory.ring_bytes =
      options.ring_slots > 0 && streamed / options.ring_slots < largest ? streamed : options.ring_slots * largest;
  if (options.shards == ShardPlace::device)
    memory.shard_bytes = (memory.outside_bytes + memory.resident_bytes + streamed) / options.sharding.ranks;
  return memory;
}

ActivePart::ActivePart(const Setup& setup) : memory_(plan_memory(setup.plan, setup.residency)) {
  outside_ = setup.device.allocate(memory_.outside_bytes, "outside blocks");
  resident_ = setup.device.allocate(memory_.resident_bytes, "resident blocks");
  OrderChecker& order = setup.device.order();
  watched_outside_ = WatchedRange(order, {outside_.data(), outside_.size_bytes()}, "weights outside blocks");
  watched_resident_ = WatchedRange(order, {resident_.data(), resident_.size_bytes()}, "resident blocks");
  load_outside(setup);
  std::vector<std::vector<UnitBinding>> stacks = place_units(setup);
  setup.copy.synchronize();
  if (const Completion* completion = setup.source.completion())
    for (Stream* stream : completion->streams) stream->synchronize();
  setup.source.check();
  stream_.emplace(setup.device, setup.compute, setup.copy, memory_.ring_bytes > 0 ? &setup.source : nullptr,
                  std::move(stacks),
                  BlockStreamOptions{memory_.ring_bytes, setup.poison_released, setup.record_timeline});
}

ActivePart::BoundParameters::~BoundParameters() {
  for (Parameter* parameter : parameters) parameter->unbind();
}

void ActivePart::load_outside(const Setup& setup) {
  if (memory_.outside_bytes > 0) setup.source.fetch_outside_async(outside_.data(), setup.copy);
  const UnitLayout layout = UnitLayout::of(setup.plan.outside);
  outside_parameters_.parameters = find_parameters(setup.plan.outside, index_parameters(setup.parameters));
  for (std::size_t i = 0; i < layout.group_offsets.size(); ++i)
    outside_parameters_.parameters[i]->bind(outside_.data() + layout.group_offsets[i]);
}

std::vector<std::vector<UnitBinding>> ActivePart::place_units(const Setup& setup) {
  const ParametersByName index = index_parameters(setup.parameters);
  std::vector<std::vector<UnitBinding>> stacks;
  std::byte* resident_place = resident_.data();
  for (std::size_t s = 0; s < setup.plan.stacks.size(); ++s) {
    std::vector<UnitBinding>& stack = stacks.emplace_back();
    const std::vector<StreamUnit>& units = setup.plan.stacks[s].units;
    for (std::size_t u = 0; u < units.size(); ++u) {
      UnitLayout layout = UnitLayout::of(units[u].groups);
      const std::size_t size = device_bytes(layout.size_bytes, setup.residency.sharding);
      UnitBinding& binding = stack.emplace_back(
          UnitBinding{find_parameters(units[u].groups, index), std::move(layout.group_offsets), size, size, nullptr});
      if (!memory_.resident[s][u]) continue;
      setup.source.fetch_async({s, u}, resident_place, setup.copy);
      binding.resident_data = resident_place;
      resident_place += size;
    }
  }
  return stacks;
}

}  // namespace lamina
