#include "engine/config/options.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {
namespace {

/// Most blocks that a part may keep on the device.
std::size_t eligible_blocks(const std::vector<ModelPart>& parts) {
  std::size_t blocks = 0;
  for (const ModelPart& part : parts)
    for (const Stack& stack : part.plan.stacks) blocks = std::max(blocks, eligible_block_count(part.plan, stack));
  return blocks;
}

/// Most units that a part streams in one traversal.
std::size_t longest_stack(const std::vector<ModelPart>& parts) {
  std::size_t units = 0;
  for (const ModelPart& part : parts)
    for (const Stack& stack : part.plan.stacks) units = std::max(units, stack.units.size());
  return units;
}

}  // namespace

OffloadOptions offload_options(const EngineConfig& config) {
  if (config.dlo_slots < 1) fail(ErrorCode::invalid_argument, "dlo-slots 0: the ring needs room for at least one unit");
  return {.stream = config.enable_distributed_layerwise_offload,
          .ring_slots = config.dlo_slots,
          .resident_blocks = config.dlo_resident_layers,
          .resident_policy = config.dlo_resident_policy,
          .host_backing = config.dlo_host_backing,
          .poison_released = config.poison_released,
          .record_timeline = config.record_trace};
}

DType activation_dtype(ActivationDType asked, DeviceKind device) {
  if (asked == ActivationDType::bfloat16 && device == DeviceKind::cpu)
    fail(ErrorCode::invalid_argument, "dtype bfloat16: the CPU computes in float32 only; use float32 or auto");
  if (asked == ActivationDType::float32 || device == DeviceKind::cpu) return DType::f32;
  return DType::bf16;
}

PipelineOptions pipeline_options(const EngineConfig& config, DeviceKind device) {
  return {.variant = config.variant,
          .transformer_file = config.transformer_file,
          .loras = config.loras,
          .text_encoder = config.load_text_encoder,
          .activations = activation_dtype(config.dtype, device),
          .vae_tiling = config.vae_tiling};
}

std::vector<std::string> configuration_notes(const EngineConfig& config, const std::vector<ModelPart>& parts) {
  const EngineConfig standard;
  std::vector<std::string> notes;
  if (!config.enable_distributed_layerwise_offload) {
    const auto note_unused = [&](const char* field, bool is_set) {
      if (is_set) notes.push_back(fmt::format("{} has no effect: nothing streams", field));
    };
    note_unused("dlo-slots", config.dlo_slots != standard.dlo_slots);
    note_unused("dlo-resident-layers", config.dlo_resident_layers != standard.dlo_resident_layers);
    note_unused("dlo-resident-policy", config.dlo_resident_policy != standard.dlo_resident_policy);
    note_unused("dlo-host-backing", config.dlo_host_backing != standard.dlo_host_backing);
    note_unused("poison-released", config.poison_released);
    return notes;
  }
  notes.push_back("one rank: distributed layerwise offload is rank-local, no all-gather runs");
  const std::size_t eligible = eligible_blocks(parts);
  if (config.dlo_resident_layers >= eligible)
    notes.push_back(
        fmt::format("dlo-resident-layers {} keeps all {} blocks that may stay on the device: none of them streams",
                    config.dlo_resident_layers, eligible));
  if (config.dlo_resident_layers == 0 && config.dlo_resident_policy != standard.dlo_resident_policy)
    notes.push_back("dlo-resident-policy has no effect: no block is resident");
  if (config.dlo_slots > longest_stack(parts))
    notes.push_back(fmt::format("dlo-slots {}: the ring holds no more than all {} units of the longest stack",
                                config.dlo_slots, longest_stack(parts)));
  return notes;
}

}  // namespace lamina
