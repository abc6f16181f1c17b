#include "engine/part_host.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "offload/drain.h"
#include "offload/mapped_source.h"
#include "offload/pinned_source.h"

namespace lamina {

ResidencyOptions residency_of(const ModelPart& part, const OffloadOptions& options) {
  return {.stream = options.stream,
          .ring_slots = options.ring_slots,
          .resident_blocks = part.is_transformer ? options.resident_blocks : 0,
          .resident_policy = options.resident_policy};
}

PartHost::PartHost(Device& device, Stream& compute, Stream& copy, const std::vector<ModelPart>& parts,
                   const OffloadOptions& options)
    : device_(device), compute_(compute), copy_(copy), parts_(parts), options_(options), active_(parts.size()) {
  std::vector<HostWeightPlan> plans;
  for (const ModelPart& part : parts) {
    plans.push_back(plan_weights(part));
    backings_.push_back({plans.back().backing, plans.back().refusal, plans.back().reason});
  }
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (options.stream) {
      sources_.push_back(make_source(parts[part], std::move(plans[part])));
    } else {
      MappedSource source(device, parts[part].plan, std::move(plans[part].bindings));
      active_[part] = set_up(part, source);
    }
  }
}

HostWeightPlan PartHost::plan_weights(const ModelPart& part) const {
  LoadFacts facts = options_.load;
  facts.may_map = options_.host_backing != HostBackingChoice::private_pages;
  facts.is_transformer = part.is_transformer;
  WeightLoader loader(part.checkpoint, {part.plan.component, member_tensors(part.plan), {}, part.stored_as}, facts);
  HostWeightPlan plan = loader.take_host_weight_plan();
  if (!options_.stream || !part.is_transformer || plan.backing == HostBacking::checkpoint_mmap) return plan;
  if (options_.host_backing == HostBackingChoice::mapped)
    fail(ErrorCode::incompatible, "host backing 'mapped' is not possible: {}", plan.reason);
  if (plan.refusal != MappingRefusal::not_asked_for)
    spdlog::info("host weights are {}: {}", to_string(plan.backing), plan.reason);
  return plan;
}

std::unique_ptr<UnitSource> PartHost::make_source(const ModelPart& part, HostWeightPlan plan) {
  if (plan.backing == HostBacking::checkpoint_mmap)
    return std::make_unique<MappedSource>(device_, part.plan, std::move(plan.bindings));
  return std::make_unique<PinnedSource>(device_, part.plan, plan.bindings);
}

ActivePart& PartHost::activate(std::size_t part) {
  if (active_.at(part) == nullptr) active_[part] = set_up(part, *sources_.at(part));
  return *active_[part];
}

void PartHost::release() noexcept {
  drain(copy_, "a stage ended");
  drain(compute_, "a stage ended");
  for (std::unique_ptr<ActivePart>& part : active_) {
    if (part == nullptr) continue;
    part->stream().abandon_pass();
    if (options_.stream) part.reset();
  }
}

PartMemory PartHost::memory_of(std::size_t part) const {
  return plan_memory(parts_.at(part).plan, residency_of(parts_[part], options_));
}

std::size_t PartHost::kept_bytes_besides(std::size_t part) const {
  std::size_t size = 0;
  for (std::size_t other = 0; other < parts_.size(); ++other)
    if (other != part && active_[other] != nullptr) size += active_[other]->memory().total_bytes();
  return size;
}

std::size_t PartHost::host_bytes() const {
  std::size_t size = 0;
  for (const std::unique_ptr<UnitSource>& source : sources_) size += source->host_bytes();
  return size;
}

std::unique_ptr<ActivePart> PartHost::set_up(std::size_t part, UnitSource& source) {
  return std::make_unique<ActivePart>(ActivePart::Setup{.device = device_,
                                                        .compute = compute_,
                                                        .copy = copy_,
                                                        .plan = parts_[part].plan,
                                                        .parameters = parts_[part].parameters,
                                                        .source = source,
                                                        .residency = residency_of(parts_[part], options_),
                                                        .poison_released = options_.poison_released,
                                                        .record_timeline = options_.record_timeline});
}

}  // namespace lamina
