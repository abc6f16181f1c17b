#include "cli/engine_flags.h"

#include <charconv>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/whole_number.h"
#include "offload/residents.h"

namespace lamina {
namespace {

/// PATH or PATH:SCALE. What stands behind the last colon is a scale where it is a number.
Lora parse_lora(const std::string& text) {
  Lora lora{text};
  if (const std::size_t colon = text.rfind(':'); colon != std::string::npos) {
    float scale = 0;
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    if (const auto [stop, error] = std::from_chars(begin, end, scale); error == std::errc() && stop == end)
      lora = {text.substr(0, colon), scale};
  }
  if (lora.file.empty() || !std::isfinite(lora.scale))
    fail(ErrorCode::invalid_argument, "--lora {}: PATH or PATH:SCALE is expected", text);
  return lora;
}

}  // namespace

void EngineFlags::add_to(CLI::App& command) {
  command.add_option("MODEL", config.model, "Model folder in the diffusers layout")->required();
  command
      .add_option("--variant", config.variant, "Read weights of this variant where they are there, e.g. fp16 or bf16")
      ->check([](const std::string& value) { return value.empty() ? "a variant is expected, found ''" : ""; });
  command.add_option("--transformer", config.transformer_file,
                     "Read the transformer's weights from this safetensors file, in names of diffusers or of the "
                     "original repository");
  command
      .add_option("--lora", loras,
                  "Merge this LoRA file into the transformer, PATH or PATH:SCALE; may be given several "
                  "times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option* dlo =
      command
          .add_flag("--enable-distributed-layerwise-offload", config.enable_distributed_layerwise_offload,
                    "Keep the blocks in host memory and stream them through a ring of device memory")
          ->disable_flag_override();
  add_streaming_to(command, dlo);
}

void EngineFlags::add_streaming_to(CLI::App& command, CLI::Option* dlo) {
  command.add_option("--host-memory-limit", host_memory,
                     "Pin no more host memory than this for weights, staging and results, e.g. 40GiB");
  CLI::Option* slots = command.add_option("--dlo-slots", config.dlo_slots, "Ring size in units of the largest block")
                           ->check(check_natural_number)
                           ->capture_default_str();
  CLI::Option* resident =
      command.add_option("--dlo-resident-layers", config.dlo_resident_layers, "Transformer blocks kept on the device")
          ->check(check_natural_number)
          ->capture_default_str();
  command.add_option("--dlo-resident-policy", resident_policy, "Which blocks those are: leading or spread")
      ->capture_default_str()
      ->needs(resident);
  CLI::Option* backing =
      command
          .add_option(
              "--dlo-host-backing", host_backing,
              "Where the transformer's weights are on the host: mapped (in the checkpoint's files), private (in "
              "page-locked memory), or auto (mapped where the checkpoint allows it; on a GPU private where that fits)")
          ->check(CLI::IsMember({"auto", "mapped", "private"}))
          ->capture_default_str();
  if (dlo == nullptr) return;
  for (CLI::Option* option : {slots, resident, backing}) option->needs(dlo);
}

void EngineFlags::add_device_choice_to(CLI::App& command) {
  command.add_option("--device", config.device, "Where to run: auto, cpu, cuda or cuda:N")->capture_default_str();
}

void EngineFlags::add_device_to(CLI::App& command) {
  add_device_choice_to(command);
  command
      .add_option("--dtype", dtype,
                  "In which the model computes: float32, bfloat16 (on a GPU), or auto (what suits the "
                  "device)")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16"}))
      ->capture_default_str();
  command.add_option("--device-memory", device_memory,
                     "Use no more device memory than this: bytes, or a number with KiB, MiB, GiB, KB, MB or GB");
}

EngineConfig EngineFlags::parsed() const {
  EngineConfig result = config;
  for (const std::string& lora : loras) result.loras.push_back(parse_lora(lora));
  if (device_memory) result.device_memory_bytes = parse_size(*device_memory, "--device-memory");
  if (host_memory) result.host_memory_bytes = parse_size(*host_memory, "--host-memory-limit");
  if (result.host_memory_bytes == std::size_t{0})
    fail(ErrorCode::invalid_argument, "--host-memory-limit: {} leaves no memory at all", *host_memory);
  result.dlo_resident_policy = parse_resident_policy(resident_policy, "--dlo-resident-policy");
  if (dtype == "float32") result.dtype = ActivationDType::float32;
  if (dtype == "bfloat16") result.dtype = ActivationDType::bfloat16;
  if (host_backing == "mapped") result.dlo_host_backing = HostBackingChoice::mapped;
  if (host_backing == "private") result.dlo_host_backing = HostBackingChoice::private_pages;
  return result;
}

}  // namespace lamina
