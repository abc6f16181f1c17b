// What is known of a checkpoint before a weight is read, and what finding it out costs. Files are sparse: headers and
// sizes are right, the weights are holes.
//
//     open_checkpoint    index and headers of 2,000 tensors in 8 shards
//     plan_weights       a HostWeightPlan of klein 4B's transformer, its checkpoint open
//     inspect_klein_4b   `lamina inspect --enable-distributed-layerwise-offload` of klein 4B: transformer, text encoder
//                        and VAE in four shards each, from path to text

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "engine/residency/host_backing.h"
#include "engine/residency/part_host.h"
#include "lamina/engine.h"
#include "pipelines/registry.h"
#include "pipelines/synthesis.h"
#include "weights/checkpoint_writer.h"
#include "weights/safetensors_writer.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

/// Removed when the program ends.
class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / fmt::format("lamina-load-bench-{}", ::getpid())) {
    fs::create_directory(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
};

fs::path scratch() {
  static const Scratch folder;
  return folder.path();
}

void write_json(const fs::path& path, const Json& json) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << json.dump();
}

void write_sparse_file(const fs::path& path, std::span<const TensorSpec> tensors) {
  AtomicFile file(path);
  const SafetensorsWriter header(file, tensors);
  file.commit();
  std::size_t size = fs::file_size(path);
  for (const TensorSpec& tensor : tensors) size += tensor.size_bytes();
  fs::resize_file(path, size);
}

void write_sparse_shards(const fs::path& folder, const std::string& stem, std::span<const TensorSpec> tensors,
                         std::size_t shards) {
  fs::create_directories(folder);
  const std::vector<std::size_t> begin = split_into_shards(tensors, shards);
  Json weight_map = Json::object();
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string name = fmt::format("{}-{}.safetensors", stem, shard);
    const auto members = tensors.subspan(begin[shard], begin[shard + 1] - begin[shard]);
    write_sparse_file(folder / name, members);
    for (const TensorSpec& tensor : members) weight_map[tensor.name] = name;
  }
  write_json(folder / (stem + ".safetensors.index.json"), {{"weight_map", std::move(weight_map)}});
}

fs::path write_klein_4b() {
  const fs::path model = scratch() / "klein-4b";
  const SynthesisPlan plan = plan_synthesis({.family = "flux2", .size = "klein-4b", .components = {"all"}});
  Json index = plan.index;
  index["scheduler"] = {"diffusers", plan.scheduler_class};
  write_json(model / "scheduler/scheduler_config.json", plan.scheduler_config);
  for (const SynthesisComponent& component : plan.components) {
    const fs::path folder = model / component.entry.name;
    index[component.entry.name] = {component.entry.library, component.entry.class_name};
    write_json(folder / "config.json", component.config);
    write_sparse_shards(folder, component.stem, component.tensors, 4);
  }
  write_json(model / "model_index.json", index);
  return model;
}

const fs::path& klein_4b() {
  static const fs::path model = write_klein_4b();
  return model;
}

void open_checkpoint(benchmark::State& state) {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 2000; ++i)
    tensors.push_back(
        {fmt::format("transformer_blocks.{}.attn.to_{}.weight", i / 10, i % 10), DType::bf16, {3072, 64}});
  const fs::path folder = scratch() / "many";
  write_sparse_shards(folder, "model", tensors, 8);
  for (auto _ : state) benchmark::DoNotOptimize(Checkpoint::open(folder, "model"));
}

void plan_weights(benchmark::State& state) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(ModelFolder::open(klein_4b()));
  for (auto _ : state) benchmark::DoNotOptimize(plan_host_weights(pipeline->parts(), {.stream = true}));
}

void inspect_klein_4b(benchmark::State& state) {
  const EngineConfig config{.model = klein_4b().string(), .enable_distributed_layerwise_offload = true};
  for (auto _ : state) benchmark::DoNotOptimize(inspect(config));
}

BENCHMARK(open_checkpoint)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(plan_weights)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(inspect_klein_4b)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace lamina

BENCHMARK_MAIN();
