#include "engine/ranks/ranked_setup.h"

#include <chrono>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/host_memory_budget.h"
#include "comm/local/local_communicator.h"
#include "device/cuda/cuda_device.h"
#include "engine/config/compatibility.h"
#include "engine/config/options.h"
#include "engine/config/select_device.h"
#include "engine/ranks/launched_ranks.h"
#include "engine/ranks/run_facts.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina {

namespace {

constexpr std::size_t kMostChunks = 1024;  // of a unit: more only pad it

/// How long a rank waits for the others in a collective of a pass. A thread that fails says so at once; this is for one
/// that hangs, and longer than any rank takes for a unit or a picture's decoding.
constexpr std::chrono::milliseconds kCollectiveLimit = std::chrono::minutes(10);

/// "a.safetensors:0.5, b.safetensors:1".
std::string describe(const std::vector<Lora>& loras) {
  std::string text;
  for (const Lora& lora : loras) text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", lora.file, lora.scale);
  return text.empty() ? "none" : text;
}

using OpenPipeline = std::function<std::unique_ptr<Pipeline>(const ModelGroups&)>;

std::optional<GroupKind> weight_group(const EffectiveParallelism& effective) {
  if (effective.topology.sizes().use_hsdp) return GroupKind::shard;
  return effective.gathers_weights ? std::optional(GroupKind::offload) : std::nullopt;
}

EffectiveParallelism resolve_all(const EngineConfig& config, std::vector<std::string>& notes) {
  EffectiveParallelism effective = resolve(config);
  notes.insert(notes.end(), effective.notes.begin(), effective.notes.end());
  if (config.parallel.dlo_gather_chunks < 1 || config.parallel.dlo_gather_chunks > kMostChunks)
    fail(ErrorCode::invalid_argument, "--dlo-gather-chunks {}: expected 1 to {}", config.parallel.dlo_gather_chunks,
         kMostChunks);
  if (config.parallel.dlo_gather_chunks > 1 && !weight_group(effective))
    notes.push_back("--dlo-gather-chunks has no effect: no weights are gathered");
  return effective;
}

/// What streams, and what of it stays. Plain layerwise offload streams like a rank that gathers nothing; components
/// that come and go whole are ones of which every block stays while they are there.
EngineConfig with_older_offload(EngineConfig engine) {
  const ParallelConfig& parallel = engine.parallel;
  if (engine.enable_distributed_layerwise_offload) return engine;
  engine.enable_distributed_layerwise_offload = parallel.enable_layerwise_offload || parallel.enable_cpu_offload;
  if (parallel.enable_cpu_offload) engine.dlo_resident_layers = std::numeric_limits<std::size_t>::max();
  return engine;
}

/// HSDP alone keeps its shards on the devices.
ShardPlace shard_place(const EffectiveParallelism& effective) {
  const bool streams = effective.config.enable_distributed_layerwise_offload;
  return effective.topology.sizes().use_hsdp && !streams ? ShardPlace::device : ShardPlace::host;
}

/// The ranks of a process on GPUs have neighbouring ones; each CPU device is its own.
DeviceChoice device_of(DeviceChoice first, std::size_t local_rank) {
  if (first.kind == DeviceKind::cuda) first.index += static_cast<int>(local_rank);
  return first;
}

/// Throws unavailable where one of the ranks would have no GPU.
void check_gpus(DeviceChoice first, std::size_t local_ranks) {
  for (std::size_t rank = 0; rank < local_ranks && first.kind == DeviceKind::cuda; ++rank) {
    const int index = device_of(first, rank).index;
    if (const std::string reason = cuda_unavailable_reason(index); !reason.empty())
      fail(ErrorCode::unavailable, "cuda:{}, of rank {} of {} in this process: {}", index, rank, local_ranks, reason);
  }
}

std::shared_ptr<RankConnector> connect(const RankPlaces& places, bool in_processes) {
  const DeviceChoice device = places.first_device;
  const bool on_gpus = device.kind == DeviceKind::cuda;
  if (in_processes)
    return connect_processes({.ranks_per_process = places.local.count,
                              .first_gpu = on_gpus ? std::optional(device.index) : std::nullopt,
                              .collective_limit = kCollectiveLimit});
  if (on_gpus) return connect_gpus(places.local.count, device.index);
  return connect_threads(places.local.count, kCollectiveLimit);
}

OpenPipeline opener(const EngineConfig& engine, DeviceKind device) {
  PipelineOptions options = pipeline_options(engine, device);
  options.text_encoder_tensor_parallel = engine.parallel.text_encoder_tp != 1;
  return [model = engine.model, options](const ModelGroups& groups) {
    PipelineOptions of_rank = options;
    of_rank.groups = groups;
    return open_pipeline(ModelFolder::open(model), of_rank);
  };
}

/// Opens the model as one rank will, so that what it cannot be divided into is refused; gives its fingerprint.
std::string checked_model(const OpenPipeline& open, const ParallelSizes& sizes) {
  const auto tensor = create_local_group("tensor", sizes.tensor);
  const auto sequence = create_local_group("sequence", sizes.sequence);
  return fingerprint(open({.tensor = sizes.tensor > 1 ? tensor.front().get() : nullptr,
                           .sequence = sizes.sequence > 1 ? sequence.front().get() : nullptr})
                         ->parts());
}

}  // namespace

RankedSetup ranked_setup(const EngineConfig& config, std::vector<std::string>& notes,
                         std::shared_ptr<RankConnector> connector) {
  const EffectiveParallelism effective = resolve_all(config, notes);
  const Topology& topology = effective.topology;
  const EngineConfig engine = with_older_offload(effective.config);
  const std::optional<LaunchedProcess> process = launched_process();
  RankPlaces places{{}, choose_device(engine.device)};
  if (connector == nullptr) {
    places = place_ranks(topology, process, config.parallel.ranks_per_process, places.first_device);
  } else {
    topology.check_world_size(connector->world_size(), "the launcher");
    places.local = connector->local_ranks();
  }
  const auto [local, device] = places;
  check_gpus(device, local.count);
  OpenPipeline open = opener(engine, device.kind);
  std::string model = checked_model(open, topology.sizes());
  if (connector == nullptr) connector = connect(places, process.has_value());
  return {
      .topology = topology,
      .connector = std::move(connector),
      .create_device =
          [places, engine](std::size_t rank) {
            return create_device(device_of(places.first_device, rank - places.local.first), engine.device_memory_bytes,
                                 process_host_memory(engine.host_memory_bytes));
          },
      .open_pipeline = std::move(open),
      .model = std::move(model),
      .also_alike = {{"the kind of device", device.kind == DeviceKind::cuda ? "cuda" : "cpu"},
                     {"the dtype of activations", std::string(to_string(activation_dtype(engine.dtype, device.kind)))},
                     {"--lora", describe(engine.loras)},
                     {"--vae-tiling", fmt::format("{}", static_cast<int>(engine.vae_tiling))}},
      .offload = offload_options(engine),
      .weights = weight_group(effective),
      .chunks = config.parallel.dlo_gather_chunks,
      .shards = shard_place(effective),
      .samples_per_replica = engine.parallel.max_concurrent_requests_per_replica,
      .wave_policy = engine.parallel.dlo_wave_policy};
}

EngineConfig lone_setup(const EngineConfig& config, std::vector<std::string>& notes) {
  EngineConfig lone = config;
  lone.parallel.dlo_use_allgather = false;  // nothing to gather, and nothing to tell of it
  return with_older_offload(resolve_all(lone, notes).config);
}

}  // namespace lamina
