#include "engine/ranked_setup.h"

#include <numeric>

#include "base/error.h"
#include "base/host_memory_budget.h"
#include "comm/nccl/nccl_communicator.h"
#include "device/cuda/cuda_device.h"
#include "engine/compatibility.h"
#include "engine/options.h"
#include "engine/select_device.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina {

namespace {

/// Ranks on GPUs have neighbouring ones; each CPU device is its own.
DeviceChoice device_of(DeviceChoice first, std::size_t rank) {
  if (first.kind == DeviceKind::cuda) first.index += static_cast<int>(rank);
  return first;
}

/// Throws unavailable where one of the ranks would have no GPU.
void check_gpus(int first, std::size_t ranks) {
  for (std::size_t rank = 0; rank < ranks; ++rank) create_cuda_device({.index = first + static_cast<int>(rank)});
}

std::function<std::vector<std::unique_ptr<Communicator>>(std::size_t)> connect_gpus(int first) {
  return [first](std::size_t ranks) {
    std::vector<int> devices(ranks);
    std::iota(devices.begin(), devices.end(), first);
    return create_nccl_group("weights", devices);
  };
}

}  // namespace

RankedSetup ranked_setup(const RankedConfig& config, std::vector<std::string>& notes) {
  const EngineConfig& engine = config.engine;
  ParallelConfig parallel = config.parallel;
  parallel.enable_distributed_layerwise_offload = engine.enable_distributed_layerwise_offload;
  parallel.dlo_resident_layers = engine.dlo_resident_layers;
  const EffectiveParallelism effective = resolve(parallel);
  notes.insert(notes.end(), effective.notes.begin(), effective.notes.end());
  if (config.gather_chunks < 1)
    fail(ErrorCode::invalid_argument, "--dlo-gather-chunks 0: a unit is gathered in one chunk at least");
  const DeviceChoice device = choose_device(engine.device);
  if (device.kind == DeviceKind::cuda) check_gpus(device.index, parallel.sizes.data);
  return {.create_device =
              [device, engine](std::size_t rank) {
                return create_device(device_of(device, rank), engine.device_memory_bytes,
                                     process_host_memory(engine.host_memory_bytes));
              },
          .open_pipeline =
              [device, engine] {
                return open_pipeline(ModelFolder::open(engine.model),
                                     {.text_encoder = engine.load_text_encoder,
                                      .activations = activation_dtype(engine.dtype, device.kind)});
              },
          .offload = offload_options(engine),
          .replicas = parallel.sizes.data,
          .gathers_weights = effective.gathers_weights,
          .chunks = config.gather_chunks,
          .connect = device.kind == DeviceKind::cuda ? connect_gpus(device.index) : nullptr,
          .samples_per_replica = parallel.max_concurrent_requests_per_replica,
          .wave_policy = parallel.dlo_wave_policy};
}

}  // namespace lamina
