#include "engine/part_host.h"

#include "engine/host_need.h"
#include "offload/checkpoint_source.h"
#include "offload/drain.h"
#include "offload/pinned_source.h"

namespace lamina {

ResidencyOptions residency_of(const ModelPart& part, const OffloadOptions& options) {
  return {.stream = options.stream,
          .ring_slots = options.ring_slots,
          .resident_blocks = part.keeps_resident_layers ? options.resident_blocks : 0,
          .resident_policy = options.resident_policy};
}

PartHost::PartHost(Device& device, Stream& compute, Stream& copy, const std::vector<ModelPart>& parts,
                   const OffloadOptions& options)
    : device_(device), compute_(compute), copy_(copy), parts_(parts), options_(options), active_(parts.size()) {
  device.host_memory().check_fits(loading_need(parts, options), "loading the model", "raise the limit");
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (options.stream) {
      sources_.push_back(std::make_unique<PinnedSource>(device, parts[part].plan, parts[part].checkpoint));
    } else {
      CheckpointSource source(device, copy, parts[part].plan, parts[part].checkpoint);
      active_[part] = set_up(part, source);
    }
  }
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
