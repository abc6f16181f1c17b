#include "engine/residency/part_host.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/residency/host_backing.h"
#include "engine/residency/host_images.h"
#include "engine/residency/host_need.h"
#include "offload/drain.h"
#include "offload/gathered_source.h"
#include "offload/mapped_source.h"
#include "offload/pinned_source.h"

namespace lamina {

namespace {

/// Shards are packed once, so files are read at the start alone. Where they go to the device, the choice is about
/// nothing.
HostBackingChoice shared_backing(const OffloadOptions& options, ShardPlace shards) {
  if (options.host_backing == HostBackingChoice::mapped && shards == ShardPlace::host)
    fail(ErrorCode::incompatible,
         "host backing 'mapped' excludes the all-gather of weights, which keeps shards in pinned memory; use "
         "--dlo-no-use-allgather, or another --dlo-host-backing");
  return HostBackingChoice::private_pages;
}

/// Whether a transformer that streams is in private memory for no other reason than that it was asked for.
bool could_be_mapped(const std::vector<ModelPart>& parts, const std::vector<HostWeightPlan>& plans,
                     const OffloadOptions& options) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (options.stream && parts[i].is_transformer && plans[i].refusal == MappingRefusal::not_asked_for) return true;
  return false;
}

}  // namespace

PartHost::PartHost(Device& device, Stream& compute, Stream& copy, const std::vector<ModelPart>& parts,
                   const OffloadOptions& options, const std::optional<WeightSharing>& sharing)
    : device_(device),
      compute_(compute),
      copy_(copy),
      parts_(parts),
      options_(options),
      sharing_(sharing),
      active_(parts.size()) {
  expects(!sharing || options.stream || has_shards_on_device(),
          "weights that do not stream are shared, with shards on the host");
  options_.stream = options.stream || has_shards_on_device();
  if (!options_.stream || has_shards_on_device()) check_weights_fit();
  options_.host_backing = choose_backing();
  std::vector<HostWeightPlan> plans = plan_host_weights(parts, options_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const HostWeightPlan& plan = plans[i];
    backings_.push_back({plan.backing, plan.refusal, plan.reason});
    if (options_.stream && parts[i].is_transformer && plan.backing == HostBacking::private_pinned &&
        plan.refusal != MappingRefusal::not_asked_for)
      spdlog::info("host weights are {}: {}", to_string(plan.backing), plan.reason);
  }
  load(std::move(plans));
}

bool PartHost::shares_images() const noexcept {
  return options_.images != nullptr && options_.stream && !sharing_;
}

HostBackingChoice PartHost::choose_backing() const {
  if (sharing_) return shared_backing(options_, sharing_->shards);
  const auto choose = [&] { return choose_host_backing(device_.kind(), device_.host_memory(), parts_, options_); };
  return shares_images() ? options_.images->backing(choose) : choose();
}

/// What comes before the first weight moves.
void PartHost::prepare_loading(const std::vector<HostWeightPlan>& plans, const std::vector<MemoryNeed>& need) const {
  const bool may_move = !sharing_ && could_be_mapped(parts_, plans, options_);
  if (total_bytes(need) > 0)
    device_.host_memory().check_fits(
        need, "loading the model",
        may_move ? "raise the limit, or keep the transformer in its files with --dlo-host-backing mapped"
                 : "raise the limit");
  for (std::size_t part = 0; part < parts_.size(); ++part)
    run_load_hooks(parts_[part].load_hooks, plans[part].bindings);
}

void PartHost::load(std::vector<HostWeightPlan> plans) {
  if (shares_images()) return load_shared(std::move(plans));
  prepare_loading(plans, loading_need(parts_, plans, residency()));
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (options_.stream) {
      sources_.push_back(make_source(parts_[part], std::move(plans[part])));
    } else {
      MappedSource source(device_, parts_[part].plan, std::move(plans[part].bindings));
      active_[part] = set_up(part, source);
    }
  }
}

/// Parts in pinned memory are those of all ranks, and come first; mapped ones have staging of this rank.
void PartHost::load_shared(std::vector<HostWeightPlan> plans) {
  const auto is_pinned = [&](std::size_t part) { return plans[part].backing == HostBacking::private_pinned; };
  std::vector<HostImages::Part> pinned;
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (is_pinned(part)) pinned.push_back({parts_[part].plan, plans[part].bindings});
  const auto images = options_.images->load(pinned, [&](const HostImages::Missing& missing) {
    std::vector<MemoryNeed> need = loading_need(parts_, plans, residency(), missing.ranks);
    std::ranges::find(need, "weights", &MemoryNeed::part)->size_bytes = missing.weight_bytes;
    prepare_loading(plans, need);
  });
  auto next = images.begin();
  for (std::size_t part = 0; part < parts_.size(); ++part)
    sources_.push_back(is_pinned(part) ? std::make_unique<PinnedSource>(*next++)
                                       : make_source(parts_[part], std::move(plans[part])));
}

void PartHost::check_weights_fit() const {
  const MemoryUse memory = device_.memory().use();
  std::size_t total = 0;
  std::size_t visiting = 0;  // of the one part that is active at a time
  std::string components;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const PartMemory need = memory_of(part);
    const std::size_t stays = bytes_that_stay(need);
    total += stays;
    visiting = std::max(visiting, need.total_bytes() - stays);
    components += fmt::format("{}{} {}", part == 0 ? "" : ", ", parts_[part].plan.component, format_size(stays));
  }
  total += visiting;
  if (visiting > 0) components += fmt::format(", gathered {}", format_size(visiting));
  if (memory.limit_bytes && total > *memory.limit_bytes)
    fail(ErrorCode::out_of_device_memory, "the {} {} on the device ({}), {} allowed{}; {}",
         options_.stream ? "shards of the weights need" : "weights need", format_size(total), components,
         format_size(*memory.limit_bytes), memory.limit_source.empty() ? "" : " by " + memory.limit_source,
         options_.stream
             ? "more ranks hold less each, and --enable-distributed-layerwise-offload keeps shards on the host"
             : "stream them with --enable-distributed-layerwise-offload");
}

bool PartHost::has_shards_on_device() const noexcept {
  return sharing_ && sharing_->shards == ShardPlace::device;
}

ResidencyOptions PartHost::residency() const {
  ResidencyOptions residency = options_.residency();
  if (sharing_) {
    residency.sharding = {sharing_->ranks.size(), sharing_->chunks};
    residency.shards = sharing_->shards;
  }
  return residency;
}

std::unique_ptr<UnitSource> PartHost::make_source(const ModelPart& part, HostWeightPlan plan) {
  if (sharing_)
    return std::make_unique<GatheredSource>(device_, sharing_->ranks, part.plan, plan.bindings,
                                            GatherOptions{sharing_->chunks, sharing_->shards});
  if (plan.backing == HostBacking::checkpoint_mmap)
    return std::make_unique<MappedSource>(device_, part.plan, std::move(plan.bindings));
  return std::make_unique<PinnedSource>(device_, part.plan, plan.bindings);
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
  return plan_memory(parts_.at(part).plan, residency());
}

std::size_t PartHost::bytes_that_stay(const PartMemory& memory) const noexcept {
  return options_.stream ? memory.shard_bytes : memory.total_bytes();
}

std::size_t PartHost::kept_bytes_besides(std::size_t part) const {
  std::size_t size = 0;
  for (std::size_t other = 0; other < parts_.size(); ++other)
    if (other != part) size += bytes_that_stay(memory_of(other));
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
                                                        .residency = residency(),
                                                        .poison_released = options_.poison_released,
                                                        .record_timeline = options_.record_timeline});
}

}  // namespace lamina
