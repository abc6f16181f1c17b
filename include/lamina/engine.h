#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lamina/error.h"
#include "lamina/generate.h"

namespace lamina {

/// Which blocks a streaming engine keeps on the device.
enum class ResidentPolicy {
  leading,  ///< the first blocks in stack order, across block lists
  spread,   ///< evenly over the stack
};

/// Where a streaming engine keeps the transformer's weights on the host.
enum class HostBackingChoice {
  automatic,     ///< mapped where the checkpoint allows it, else private
  mapped,        ///< in the checkpoint's files; an error that names the reason where that cannot be
  private_pages  ///< in page-locked images of this process
};

struct EngineConfig {
  std::string model;                               ///< folder in the diffusers layout
  std::string device = "auto";                     ///< "auto", "cpu"
  std::optional<std::size_t> device_memory_bytes;  ///< refuse to use more
  /// Stream the blocks through a ring of device memory. Off: all weights stay on the device.
  bool enable_distributed_layerwise_offload = false;
  std::size_t dlo_slots = 2;            ///< ring capacity in units of the largest block, at least 1
  std::size_t dlo_resident_layers = 0;  ///< transformer blocks kept on the device
  ResidentPolicy dlo_resident_policy = ResidentPolicy::leading;
  HostBackingChoice dlo_host_backing = HostBackingChoice::automatic;
  /// Fill ring bytes with NaN when their block leaves, so that a use after release shows. Costs device bandwidth.
  bool poison_released = false;
};

/// Loads one model and makes pictures with it, one after the other. Not thread safe; movable.
class Engine {
 public:
  /// Validates the configuration whole, opens and checks the checkpoint, then sets up the device.
  explicit Engine(const EngineConfig& config);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// Throws Error: invalid_argument for the request, out_of_device_memory with numbers by part, device. After an error
  /// the engine goes on, except after `device`.
  GenerateResult generate(const GenerateRequest& request, const ProgressFunction& progress = {});

  /// What of the configuration has no effect, and why, one sentence each.
  const std::vector<std::string>& notes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a checkpoint holds and how it would run: components, stacks, units, bytes. Touches no device.
struct Inspection {
  std::string text;  ///< for people
  std::string json;
};
Inspection inspect(const EngineConfig& config);

/// "0.1.0".
const char* version() noexcept;

}  // namespace lamina
