// What packing a unit costs beside a plain copy of the same bytes, all in one run. The argument is the size of a
// staging buffer in MiB; bytes per second are of the packed tensor, by wall clock.

#include <benchmark/benchmark.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "weights/safetensors_writer.h"
#include "weights/weight_binding.h"

namespace lamina {
namespace {

constexpr std::int64_t kRows = 32 * 1024;
constexpr std::int64_t kColumns = 4096;  // bf16: 256 MiB
constexpr std::size_t kSize = static_cast<std::size_t>(kRows * kColumns * 2);

/// A checkpoint of one large tensor, deleted at the end, its pages warm.
class WarmFile {
 public:
  WarmFile() : path_(std::filesystem::temp_directory_path() / "lamina-packing-bench.safetensors") {
    const std::vector<std::byte> bytes(kSize, std::byte{1});
    AtomicFile file(path_);
    write_safetensors(file, std::vector<NamedTensor>{{"w", ConstTensorView(bytes.data(), DType::bf16, shape())}});
    file.commit();
  }
  ~WarmFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  WarmFile(const WarmFile&) = delete;
  WarmFile& operator=(const WarmFile&) = delete;

  static Shape shape() { return {kRows, kColumns}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const Checkpoint& checkpoint() {
  static const WarmFile file;
  static const Checkpoint checkpoint = Checkpoint::open_file(file.path());
  return checkpoint;
}

/// Runs `fill(offset, destination)` over the tensor, alternating between two staging buffers.
template <typename Fill>
void run(benchmark::State& state, std::size_t size, Fill fill) {
  const auto staging_bytes = static_cast<std::size_t>(state.range(0)) * kMiB;
  std::vector<std::byte> staging(2 * staging_bytes);
  for (auto _ : state)
    for (std::size_t offset = 0; offset < size; offset += staging_bytes)
      fill(offset, std::span(staging).subspan(offset / staging_bytes % 2 * staging_bytes, staging_bytes));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * size));
}

void copy_memory(benchmark::State& state) {
  const std::vector<std::byte> source(kSize, std::byte{1});
  run(state, kSize, [&](std::size_t offset, std::span<std::byte> destination) {
    std::memcpy(destination.data(), source.data() + offset, destination.size());
  });
}

void copy_mapping(benchmark::State& state) {
  const std::byte* source = checkpoint().view({"w", DType::bf16, WarmFile::shape()}).data();
  run(state, kSize, [&](std::size_t offset, std::span<std::byte> destination) {
    std::memcpy(destination.data(), source + offset, destination.size());
  });
}

void pack(benchmark::State& state, const TensorSpec& tensor, const StoredForm& form) {
  const WeightBinding binding = bind_weight(checkpoint(), tensor, [&](const std::string&) { return form; });
  run(state, tensor.size_bytes(),
      [&](std::size_t offset, std::span<std::byte> destination) { pack_weight(binding, offset, destination); });
}

void pack_plain(benchmark::State& state) {
  pack(state, {"w", DType::bf16, WarmFile::shape()}, {"w", std::nullopt, false});
}

void pack_heads(benchmark::State& state) {
  pack(state, {"q", DType::bf16, {kRows / 4, kColumns}}, {"w", RowRuns{128, 128, 384}, false});
}

void pack_cast(benchmark::State& state) {
  pack(state, {"w", DType::f32, WarmFile::shape()}, {"w", std::nullopt, false});
}

void pack_transposed(benchmark::State& state) {
  pack(state, {"w", DType::bf16, {kColumns, kRows}}, {"w", std::nullopt, true});
}

BENCHMARK(copy_memory)->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(copy_mapping)->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(pack_plain)->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(pack_heads)->Arg(4)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(pack_cast)->Arg(4)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(pack_transposed)->Arg(4)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace lamina

BENCHMARK_MAIN();
