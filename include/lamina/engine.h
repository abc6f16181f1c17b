#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lamina/error.h"
#include "lamina/generate.h"
#include "lamina/lora.h"
#include "lamina/parallel.h"
#include "lamina/resident_policy.h"
#include "lamina/snapshot.h"
#include "lamina/ticket.h"
#include "lamina/vae_tiling.h"

namespace lamina {

/// Where a streaming engine keeps the transformer's weights on the host.
enum class HostBackingChoice {
  automatic,     ///< mapped where the checkpoint allows it, else private; on a GPU private wherever that fits
  mapped,        ///< in the checkpoint's files; an error that names the reason where that cannot be
  private_pages  ///< in page-locked images of this process
};

/// In which the model computes; sums are always float32.
enum class ActivationDType {
  automatic,  ///< bfloat16 on a GPU, float32 on the CPU
  float32,
  bfloat16  ///< GPUs only
};

struct EngineConfig {
  std::string model;    ///< folder in the diffusers layout
  std::string variant;  ///< of the weights' files, "fp16"; empty, or where a component lacks it: the plain ones
  std::string
      transformer_file;     ///< one safetensors file with the transformer's weights, in place of those in the folder
  std::vector<Lora> loras;  ///< merged one after the other
  std::string device = "auto";  ///< "auto", "cpu", "cuda", "cuda:N"
  ActivationDType dtype = ActivationDType::automatic;
  std::optional<std::size_t> device_memory_bytes;  ///< refuse to use more
  bool load_text_encoder = true;                   ///< off: requests give prompt embeddings
  VaeTiling vae_tiling = VaeTiling::automatic;
  /// Refuse to pin more host memory than this for weights, staging and results. One limit a process: all engines that
  /// live at the same time name the same one, or none.
  std::optional<std::size_t> host_memory_bytes;
  /// Stream the blocks through a ring of device memory. Off: all weights stay on the device.
  bool enable_distributed_layerwise_offload = false;
  std::size_t dlo_slots = 2;            ///< ring capacity in units of the largest block, at least 1
  std::size_t dlo_resident_layers = 0;  ///< transformer blocks kept on the device
  ResidentPolicy dlo_resident_policy = ResidentPolicy::leading;
  HostBackingChoice dlo_host_backing = HostBackingChoice::automatic;
  /// Fill ring bytes with NaN when their block leaves, so that a use after release shows. Costs device bandwidth.
  bool poison_released = false;
  bool record_trace = false;  ///< results carry a trace
  ParallelConfig parallel;    ///< several ranks, and what they share
};

/// Whether an engine takes requests, and why not.
struct Health {
  bool ok = true;
  std::string reason;  ///< where it is not ok

  explicit operator bool() const noexcept { return ok; }
};

/// Loads one model once and makes pictures with it, one request after the other in their order, until it is drained or
/// destroyed. Requests come and go at any time; a thread of the engine does the work, and blocks when there is none.
/// Every function is thread safe; moving and destroying the engine are not.
///
/// A request that fails for its own values, or is cancelled, changes no byte of another. A fault of the device ends all
/// requests with its reason, and the engine takes no more.
class Engine {
 public:
  /// Validates the configuration whole, opens and checks the checkpoint, then sets up the devices. What loading needs
  /// of host memory is known beforehand: where a limit is below, out_of_host_memory is thrown before anything is
  /// loaded. Several ranks (`EngineConfig::parallel`) are not_implemented here; the command runs them.
  explicit Engine(const EngineConfig& config);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  /// Cancels what is open and stops.
  ~Engine();

  /// Queues a request and returns at once: what is wrong with it, its files included, becomes its failure. Throws
  /// unavailable where the engine takes no requests, with the reason.
  Ticket submit(GenerateRequest request, Observer observer = {});

  /// Submits a request of one picture and waits. Throws what `Ticket::result` throws: invalid_argument for the request,
  /// out_of_device_memory or out_of_host_memory with numbers by part, device.
  GenerateResult generate(GenerateRequest request, Observer observer = {});

  /// Cheap; takes no lock that a pass waits for.
  EngineSnapshot snapshot() const;
  Health health() const;

  /// Takes no more requests, waits until those it has are over, and stops. What is open at the deadline is cancelled.
  /// Whether all came to their end by themselves.
  bool drain(std::chrono::milliseconds deadline);

  /// What of the configuration has no effect, and why, one sentence each.
  const std::vector<std::string>& notes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct InspectOptions {
  bool memory = false;  ///< also the host memory that loading needs, its limits, and what this process uses
};

/// What a checkpoint holds and how it would run: components, stacks, units, bytes. Of the device nothing but its kind
/// counts, and it need not be there.
struct Inspection {
  std::string text;  ///< for people
  std::string json;
};
Inspection inspect(const EngineConfig& config, const InspectOptions& options = {});

/// "0.1.0".
const char* version() noexcept;

}  // namespace lamina
