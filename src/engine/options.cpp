#include "engine/options.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {
namespace {

/// Blocks of the parts that keep resident layers and may keep them.
std::size_t eligible_blocks(const std::vector<ModelPart>& parts) {
  std::size_t blocks = 0;
  for (const ModelPart& part : parts)
    if (part.is_transformer)
      for (const Stack& stack : part.plan.stacks) blocks = std::max(blocks, eligible_block_count(part.plan, stack));
  return blocks;
}

}  // namespace

OffloadOptions offload_options(const EngineConfig& config) {
  if (config.dlo_slots < 1)
    fail(ErrorCode::invalid_argument, "dlo_slots is 0; the ring needs room for at least one unit");
  return {.stream = config.enable_distributed_layerwise_offload,
          .ring_slots = config.dlo_slots,
          .resident_blocks = config.dlo_resident_layers,
          .resident_policy = config.dlo_resident_policy,
          .host_backing = config.dlo_host_backing,
          .poison_released = config.poison_released};
}

std::vector<std::string> configuration_notes(const EngineConfig& config, const std::vector<ModelPart>& parts) {
  std::vector<std::string> notes;
  const bool streams = config.enable_distributed_layerwise_offload;
  if (!streams && config.dlo_resident_layers > 0)
    notes.push_back(
        "dlo-resident-layers has no effect: distributed layerwise offload is off, all weights are resident");
  const std::size_t eligible = eligible_blocks(parts);
  if (streams && config.dlo_resident_layers >= eligible)
    notes.push_back(fmt::format(
        "dlo-resident-layers {} keeps all {} transformer blocks on the device: none of them streams, and dlo-slots "
        "speaks of the text encoder alone",
        config.dlo_resident_layers, eligible));
  if (streams) notes.push_back("one rank: distributed layerwise offload is rank-local, no all-gather runs");
  return notes;
}

}  // namespace lamina
