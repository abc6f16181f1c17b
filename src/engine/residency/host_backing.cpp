#include "engine/residency/host_backing.h"

#include "base/error.h"
#include "engine/residency/host_images.h"
#include "engine/residency/host_need.h"

namespace lamina {

// A GPU's link brings five times what a thread packs from files (docs/performance.md).
HostBackingChoice choose_host_backing(DeviceKind device, const HostMemoryBudget& host,
                                      const std::vector<ModelPart>& parts, const OffloadOptions& options) {
  if (options.host_backing != HostBackingChoice::automatic || !options.stream || device == DeviceKind::cpu)
    return options.host_backing;
  OffloadOptions in_memory = options;
  in_memory.host_backing = HostBackingChoice::private_pages;
  const std::size_t ranks = options.images != nullptr ? options.images->ranks() : 1;
  const bool fits =
      host.fits_comfortably(loading_need(parts, plan_host_weights(parts, in_memory), options.residency(), ranks));
  return fits ? HostBackingChoice::private_pages : HostBackingChoice::automatic;
}

namespace {

/// "vae" of "vae.decoder".
std::string component_of(const ModelPart& part) {
  return part.plan.component.substr(0, part.plan.component.find('.'));
}

std::vector<OtherComponent> others_of(const ModelPart& part, const std::vector<ModelPart>& parts) {
  std::vector<OtherComponent> others;
  for (const ModelPart& other : parts)
    if (component_of(other) != component_of(part)) others.push_back({component_of(other), &other.checkpoint});
  return others;
}

HostWeightPlan plan_part(const ModelPart& part, const std::vector<ModelPart>& parts, const OffloadOptions& options) {
  LoadFacts facts = options.load;
  facts.may_map = options.host_backing != HostBackingChoice::private_pages;
  facts.is_transformer = part.is_transformer;
  facts.others = others_of(part, parts);
  if (part.tensor_parallel_size > 1) facts.tensor_parallel_size = part.tensor_parallel_size;
  WeightLoader loader(part.checkpoint, {part.plan.component, member_tensors(part.plan), {}, part.stored_as}, facts);
  HostWeightPlan plan = loader.take_host_weight_plan();
  if (!options.stream || !part.is_transformer || plan.backing == HostBacking::checkpoint_mmap) return plan;
  if (options.host_backing == HostBackingChoice::mapped)
    fail(ErrorCode::incompatible, "host backing 'mapped' is not possible: {}", plan.reason);
  return plan;
}

}  // namespace

std::vector<HostWeightPlan> plan_host_weights(const std::vector<ModelPart>& parts, const OffloadOptions& options) {
  std::vector<HostWeightPlan> plans;
  for (const ModelPart& part : parts) plans.push_back(plan_part(part, parts, options));
  return plans;
}

}  // namespace lamina
