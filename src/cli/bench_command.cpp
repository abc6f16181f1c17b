#include "cli/bench_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/bench_table.h"
#include "cli/engine_flags.h"
#include "cli/file_flags.h"
#include "cli/interruption.h"
#include "cli/mode_table.h"
#include "cli/rank_flags.h"
#include "cli/whole_number.h"
#include "comm/launched_process.h"
#include "engine/config/compatibility.h"
#include "pipelines/synthesis.h"

namespace lamina {
namespace {

constexpr std::int64_t kStandardSide = 1024;

struct BenchFlags {
  EngineFlags engine;
  RankFlags ranks;
  std::vector<std::string> modes;
  double time_limit = ModeBenchmarkRequest{}.time_limit;
  std::string synthetic;
  std::string synthetic_folder;
  std::vector<std::int64_t> heights;
  std::vector<std::int64_t> widths;
  BenchmarkRequest request;
  bool no_resident = false;
  bool json = false;
  std::string trace;
};

/// One picture for each height and width; a missing list is taken from the other.
std::vector<PictureSize> sizes_of(const BenchFlags& flags) {
  if (!flags.heights.empty() && !flags.widths.empty() && flags.heights.size() != flags.widths.size())
    fail(ErrorCode::invalid_argument, "--height names {} pictures, --width {}; give as many, or one of the two",
         flags.heights.size(), flags.widths.size());
  const std::vector<std::int64_t>& heights = flags.heights.empty() ? flags.widths : flags.heights;
  const std::vector<std::int64_t>& widths = flags.widths.empty() ? flags.heights : flags.widths;
  std::vector<PictureSize> sizes;
  for (std::size_t i = 0; i < heights.size(); ++i) sizes.push_back({heights[i], widths[i]});
  if (sizes.empty()) sizes.push_back({kStandardSide, kStandardSide});
  return sizes;
}

/// Writes the synthetic model into a folder that `scratch` owns.
std::string write_model(const BenchFlags& flags, const EngineConfig& config, std::optional<AtomicFolder>& scratch) {
  namespace fs = std::filesystem;
  const fs::path parent = flags.synthetic_folder.empty() ? fs::temp_directory_path() : fs::path(flags.synthetic_folder);
  const SynthesisRequest request{.family = "flux2", .size = flags.synthetic, .components = {"transformer"}};
  const SynthesisPlan plan = plan_synthesis(request);
  check_benchmark(config, flags.request);  // gigabytes are not written for a run that will be refused
  scratch.emplace(parent / fmt::format("lamina-bench-{}", ::getpid()));
  const fs::path model = scratch->path() / "model";
  write_synthetic_model(plan, request, model, stop_if_interrupted);
  return model.string();
}

/// Streams, but where HSDP alone keeps its shards on the devices. Throws where the flags do not go together.
EngineConfig ranked_config(const BenchFlags& flags, EngineConfig config) {
  config.parallel = flags.ranks.parsed();
  const ParallelConfig& parallel = config.parallel;
  config.enable_distributed_layerwise_offload = !parallel.sizes.use_hsdp || !parallel.dlo_use_allgather;
  resolve(config);
  return config;
}

/// What is to be measured of several ranks, or of several requests at a time; nothing to be: one rank's steps.
std::vector<std::string> modes_of(const BenchFlags& flags, std::size_t ranks) {
  std::vector<std::string> modes = flags.modes;
  if (modes.empty()) {
    const bool given = flags.ranks.are_several() || flags.ranks.parallel.max_concurrent_requests_per_replica > 1;
    if (given) modes = {"resident", "given"};
  } else if (modes == std::vector<std::string>{"all"}) {
    modes = ranks > 1 ? bench_mode_names() : std::vector<std::string>{"resident", "local", "cobatch"};
  }
  if (flags.no_resident) std::erase(modes, "resident");
  return modes;
}

void print_benchmark(const BenchFlags& flags, const ModeBenchmark& benchmark) {
  fmt::print("{}", flags.json ? mode_benchmark_json(benchmark).dump(2) + "\n" : mode_table(benchmark));
  std::fflush(stdout);
  if (benchmark.failed) fail(ErrorCode::device, "not every mode could be measured: {}", benchmark.notes.front());
}

void run_modes(const BenchFlags& flags, const EngineConfig& config, const std::vector<std::string>& modes) {
  const ModeBenchmarkRequest request{modes, flags.request.sizes, flags.request.steps, flags.time_limit};
  fmt::print(stderr, "{}", mode_table_header());
  const ModeBenchmark benchmark = run_mode_benchmark(
      config, request, [](const ModeMeasurement& row) { fmt::print(stderr, "{}", mode_table_row(row)); },
      [] { return interruption() != 0; });
  print_benchmark(flags, benchmark);
}

void run_bench(BenchFlags& flags) {
  flags.request.sizes = sizes_of(flags);
  flags.request.resident = !flags.no_resident;
  EngineConfig config = flags.engine.parsed();
  if (const std::optional<LaunchedProcess> process = launched_process())
    fail(ErrorCode::invalid_argument, "bench: it measures ranks that are threads of one process; start it without {}",
         process->launcher);
  if (config.model.empty() == flags.synthetic.empty())
    fail(ErrorCode::invalid_argument, "bench: one of MODEL and --synthetic is expected");
  EngineConfig ranked = ranked_config(flags, config);
  const std::vector<std::string> modes = modes_of(flags, Topology(ranked.parallel.sizes).world_size());
  if (!modes.empty()) check_modes(ranked, {modes, flags.request.sizes});
  if (!modes.empty() && !flags.trace.empty())
    fail(ErrorCode::invalid_argument, "--trace: only the steps of one rank are traced; drop it or --modes");
  watch_for_interruption();
  std::optional<AtomicFile> trace;
  if (!flags.trace.empty()) {
    refuse_standard_output("--trace", flags.trace);
    trace.emplace(flags.trace);
  }
  std::optional<AtomicFolder> scratch;  // never committed: it goes with the run
  if (!flags.synthetic.empty()) config.model = write_model(flags, config, scratch);
  ranked.model = config.model;
  if (!modes.empty()) return run_modes(flags, ranked, modes);
  const BenchmarkResult result = run_benchmark(config, flags.request, [](const Progress&) { stop_if_interrupted(); });
  if (trace) write_text(std::move(*trace), result.sizes.back().trace_json);
  fmt::print("{}", flags.json ? benchmark_json(result).dump(2) + "\n" : benchmark_table(result));
}

}  // namespace

void add_bench_command(CLI::App& app) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& command = *app.add_subcommand(
      "bench", "Time denoising steps of a transformer, resident and streamed, beside the floors of the same run");
  command.add_option("MODEL", flags->engine.config.model, "Model folder in the diffusers layout");
  command.add_option("--synthetic", flags->synthetic,
                     "In place of MODEL: random weights of klein-4b, klein-9b, dev or of a transformer's config.json");
  command.add_option("--synthetic-folder", flags->synthetic_folder,
                     "Where those are written for the time of the run; default: the folder for temporary files");
  command.add_option("--height", flags->heights, "Pixels, one or more; default 1024")->check(check_whole_number);
  command.add_option("--width", flags->widths, "Pixels, as many as heights; default: the heights")
      ->check(check_whole_number);
  command.add_option("--steps", flags->request.steps, "Steps measured for each size, behind some to warm up")
      ->check(check_whole_number)
      ->check(CLI::Range(std::int64_t{1}, BenchmarkRequest::kMostSteps))
      ->capture_default_str();
  command.add_flag("--no-resident", flags->no_resident, "Leave out the run with all weights on the device");
  command.add_flag("--json", flags->json, "Print JSON, with every unit");
  command
      .add_option("--trace", flags->trace,
                  "Write the last size's streamed steps as a trace that Chrome and Perfetto show")
      ->check(check_file_name);
  command
      .add_option("--modes", flags->modes,
                  fmt::format("Compare ways to run on all ranks that the sizes below give: all, or some of {}",
                              fmt::join(bench_mode_names(), ", ")))
      ->delimiter(',');
  command.add_option("--time-limit", flags->time_limit, "Seconds that a mode and size may be measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  flags->engine.add_streaming_to(command, nullptr);
  flags->ranks.add_to_benchmark(command);
  flags->engine.add_device_to(command);
  command.callback([flags] { run_bench(*flags); });
}

}  // namespace lamina
