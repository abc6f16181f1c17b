#include "engine/part_host.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "engine/host_need.h"
#include "offload/checkpoint_source.h"
#include "offload/drain.h"
#include "offload/pinned_source.h"

namespace lamina {

PartHost::PartHost(Device& device, Stream& compute, Stream& copy, const std::vector<ModelPart>& parts,
                   const OffloadOptions& options)
    : device_(device), compute_(compute), copy_(copy), parts_(parts), options_(options), active_(parts.size()) {
  if (!options.stream) check_weights_fit();
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

void PartHost::check_weights_fit() const {
  const auto limit = device_.memory().use().limit_bytes;
  std::size_t total = 0;
  std::string components;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::size_t size = memory_of(part).total_bytes();
    total += size;
    components += fmt::format("{}{} {}", part == 0 ? "" : ", ", parts_[part].plan.component, format_size(size));
  }
  if (limit && total > *limit)
    fail(ErrorCode::out_of_device_memory,
         "the weights need {} on the device ({}), {} allowed; stream them with "
         "--enable-distributed-layerwise-offload",
         format_size(total), components, format_size(*limit));
}

ActivePart& PartHost::activate(std::size_t part) {
  if (options_.stream) {
    expects(std::ranges::all_of(active_, [](const auto& other) { return other == nullptr; }),
            "part {} activated while another one is", part);
    active_.at(part) = set_up(part, *sources_.at(part));
  }
  return *active_[part];
}

void PartHost::release() {
  drain(copy_, "a stage ended");
  drain(compute_, "a stage ended");
  for (std::unique_ptr<ActivePart>& part : active_) {
    if (part == nullptr) continue;
    if (options_.stream)
      part.reset();
    else if (part->stream().is_running())
      part->stream().abandon_pass();
  }
}

PartMemory PartHost::memory_of(std::size_t part) const {
  return plan_memory(parts_.at(part).plan, options_.residency());
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
                                                        .residency = options_.residency(),
                                                        .poison_released = options_.poison_released,
                                                        .record_timeline = options_.record_timeline});
}

}  // namespace lamina
