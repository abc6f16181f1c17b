// Write rate of a synthetic checkpoint beside that of plain bytes on the same disk, and the memory that it takes.
//
//     lamina_synth_bench [--size klein-4b] [--folder .]
//
// Without --size: a transformer with the blocks of FLUX.2 klein 4B, but one of each kind (1.1 GB). The two kinds of
// writing take turns, and turns to go first, because other work shares the disk. Plain: the same number of bytes from
// one buffer of a MiB by write(2), then fsync, as `dd bs=1M conv=fsync` does. Synth: `write_synthetic_model` with three
// shards, each synchronized.
//
//     column     meaning
//     round      number of the pair
//     plain      bytes / time until the data is on the disk, MB/s (10^6)
//     synth      the same of the synthetic checkpoint
//     ratio      synth / plain; last line: all bytes over all time
//
// Then the rate at which weights are made without a disk, and the growth of the largest resident memory of the process
// over what it was before the first weight was made.

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "pipelines/synthesis.h"
#include "weights/synthetic_weights.h"

namespace {

using namespace lamina;
namespace fs = std::filesystem;

constexpr int kRounds = 4;
constexpr double kMega = 1e6;

template <typename Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::size_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * kKiB;
}

struct Options {
  std::string size;
  fs::path folder = fs::current_path();
};

Options parse(std::span<char*> arguments) {
  Options options;
  for (std::size_t i = 1; i < arguments.size(); i += 2) {
    const std::string flag = arguments[i];
    if (i + 1 == arguments.size()) fail(ErrorCode::invalid_argument, "{}: a value is expected", flag);
    if (flag == "--size") {
      options.size = arguments[i + 1];
    } else if (flag == "--folder") {
      options.folder = arguments[i + 1];
    } else {
      fail(ErrorCode::invalid_argument, "{}: --size or --folder is expected", flag);
    }
  }
  return options;
}

/// klein-4b's configuration with one double and one single block.
std::string write_small_config(const fs::path& folder) {
  Json config =
      plan_synthesis({.family = "flux2", .size = "klein-4b", .components = {"transformer"}}).components.front().config;
  config["num_layers"] = 1;
  config["num_single_layers"] = 1;
  const fs::path file = folder / "config.json";
  std::ofstream(file) << config.dump();
  return file.string();
}

void write_plain(const fs::path& path, std::size_t size_bytes) {
  std::vector<std::byte> block(kMiB);
  fill_synthetic({"block.weight", DType::bf16, {1024, 512}}, 1, 0, block);
  AtomicFile file(path);
  for (std::size_t written = 0; written < size_bytes; written += kMiB)
    file.write(std::span(block).first(std::min(kMiB, size_bytes - written)));
  file.commit();
}

void fill_all(const SynthesisPlan& plan) {
  std::vector<std::byte> block(kMiB);
  for (const SynthesisComponent& component : plan.components)
    for (const TensorSpec& tensor : component.tensors)
      for (std::size_t offset = 0; offset < tensor.size_bytes(); offset += kMiB)
        fill_synthetic(tensor, 1, offset, std::span(block).first(std::min(kMiB, tensor.size_bytes() - offset)));
}

/// A folder of its own that is removed at the end.
class Scratch {
 public:
  explicit Scratch(const fs::path& parent) : path_(parent / fmt::format("lamina-synth-bench-{}", ::getpid())) {
    fs::create_directory(path_);
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
    if (error) fmt::print(stderr, "cannot remove {}: {}\n", path_.string(), error.message());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
};

void run(const Options& options, const fs::path& scratch) {
  const SynthesisRequest request{.family = "flux2",
                                 .size = options.size.empty() ? write_small_config(scratch) : options.size,
                                 .components = {"transformer"},
                                 .shards = 3};
  const SynthesisPlan plan = plan_synthesis(request);
  const auto bytes = static_cast<double>(plan.weight_bytes());
  const std::size_t before = peak_resident_bytes();
  fmt::print("{} of bf16 weights in {} tensors\n{:>5} {:>10} {:>10} {:>7}\n", format_size(plan.weight_bytes()),
             plan.components.front().tensors.size(), "round", "plain", "synth", "ratio");
  const auto plain = [&] {
    const double seconds = seconds_of([&] { write_plain(scratch / "plain", plan.weight_bytes()); });
    fs::remove(scratch / "plain");
    return seconds;
  };
  const auto synth = [&] {
    const double seconds = seconds_of([&] { write_synthetic_model(plan, request, scratch / "model"); });
    fs::remove_all(scratch / "model");
    return seconds;
  };
  const auto print = [&](const std::string& round, double megabytes, double plain_seconds, double synth_seconds) {
    fmt::print("{:>5} {:>10.1f} {:>10.1f} {:>7.2f}\n", round, megabytes / plain_seconds, megabytes / synth_seconds,
               plain_seconds / synth_seconds);
    std::fflush(stdout);  // a large checkpoint takes minutes
  };
  double plain_total = 0;
  double synth_total = 0;
  for (int round = 0; round < kRounds; ++round) {
    double synth_seconds = round % 2 == 1 ? synth() : 0;
    const double plain_seconds = plain();
    if (round % 2 == 0) synth_seconds = synth();
    print(std::to_string(round), bytes / kMega, plain_seconds, synth_seconds);
    plain_total += plain_seconds;
    synth_total += synth_seconds;
  }
  print("all", kRounds * bytes / kMega, plain_total, synth_total);
  const double made = bytes / kMega / seconds_of([&] { fill_all(plan); });
  fmt::print("without a disk {:.0f} MB/s; memory {}, of that {} for writing\n", made,
             format_size(peak_resident_bytes()), format_size(peak_resident_bytes() - before));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(std::span(argv, static_cast<std::size_t>(argc)));
    const Scratch scratch(options.folder);
    run(options, scratch.path());
  } catch (const std::exception& error) {
    fmt::print(stderr, "lamina_synth_bench: {}\n", error.what());
    return 1;
  }
}
