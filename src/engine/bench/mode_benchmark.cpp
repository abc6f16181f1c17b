#include "engine/bench/mode_benchmark.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/milliseconds.h"
#include "engine/bench/bench_modes.h"
#include "engine/bench/link_rate.h"
#include "engine/lockstep/first_fault.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWarmUp = static_cast<std::size_t>(BenchmarkRequest::kWarmUpSteps);

/// When the requests of a batch have been measured for long enough. Told and asked by threads of ranks.
class TimeLimit {
 public:
  TimeLimit(double seconds, const std::function<bool()>& stop) : seconds_(seconds), stop_(stop) {}

  void note_pass() {
    if (passes_++ == 0) begin_ = Clock::now();
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (passes_ > kWarmUp + ModeBenchmarkRequest::kLeastSteps && elapsed > seconds_) over_ = true;
  }
  bool is_over() const { return over_ || (stop_ && stop_()); }

 private:
  double seconds_;
  const std::function<bool()>& stop_;
  std::size_t passes_ = 0;  // the first rank's alone
  Clock::time_point begin_;
  std::atomic<bool> over_ = false;
};

GenerateRequest request_of(const PictureSize& size, std::uint64_t seed, std::int64_t steps) {
  GenerateRequest request = timed_request(size, steps);
  request.prompt_embeds_seed = seed;
  request.seed = seed;
  return request;
}

/// A rank's steps behind those to warm up.
std::vector<double> measured_steps(const RankTotals& totals) {
  std::vector<double> steps;
  for (std::size_t pass = kWarmUp; pass < totals.pass_ends.size(); ++pass)
    steps.push_back(milliseconds(totals.pass_ends[pass] - totals.pass_ends[pass - 1]));
  std::ranges::sort(steps);
  return steps;
}

std::size_t largest_unit_bytes(const Pipeline& pipeline) {
  std::size_t largest = 0;
  for (const ModelPart& part : pipeline.parts())
    for (const Stack& stack : part.plan.stacks)
      for (const StreamUnit& unit : stack.units) largest = std::max(largest, UnitLayout::of(unit.groups).size_bytes);
  return largest;
}

class ModeRunner {
 public:
  ModeRunner(const EngineConfig& config, const ModeBenchmarkRequest& request,
             const std::function<void(const ModeMeasurement&)>& measured, const std::function<bool()>& stop)
      : config_(config), request_(request), measured_(measured), stop_(stop) {
    config_.load_text_encoder = false;
  }

  ModeBenchmark run() {
    measure_links_of_ranks();
    for (const BenchLoad& load : bench_loads(config_, request_.modes)) {
      try {
        measure(load);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        result_.failed = result_.failed || error.code() == ErrorCode::device || error.code() == ErrorCode::internal;
        result_.notes.push_back(fmt::format("{}: not measured: {}", load.rows.front().mode, error.message()));
      }
    }
    compare_idle();
    return std::move(result_);
  }

 private:
  /// Replicas that each copy whole units, on all ranks.
  void measure_links_of_ranks() {
    result_.ranks = Topology(config_.parallel.sizes).world_size();
    EngineConfig plain = config_;
    plain.parallel = {.sizes = {.data = result_.ranks}};
    plain.enable_distributed_layerwise_offload = false;
    std::vector<std::string> notes;
    const RankedSetup setup = ranked_setup(plain, notes);
    result_.device = setup.create_device(0)->name();
    result_.link_bytes_per_second =
        measure_links(setup.create_device, result_.ranks, largest_unit_bytes(*setup.open_pipeline({})));
  }

  void measure(const BenchLoad& load) {
    std::vector<std::string> notes;
    const RankedSetup setup = ranked_setup(load.config, notes);
    const std::size_t replicas = setup.topology.replica_count();
    std::vector<std::unique_ptr<TimeLimit>> limits;
    std::vector<RankedBatch> batches;
    for (const BenchRow& row : load.rows)
      for (const PictureSize& size : request_.sizes) {
        RankedBatch& batch = batches.emplace_back();
        for (std::size_t i = 0; i < (row.alone ? 1 : row.samples * replicas); ++i)
          batch.requests.push_back(request_of(size, i, request_.steps));
        limits.push_back(std::make_unique<TimeLimit>(request_.time_limit, stop_));
        batch.hooks = {.passed = [limit = limits.back().get()](const RankedProgress&) { limit->note_pass(); },
                       .is_cancelled = [limit = limits.back().get()](std::size_t) { return limit->is_over(); }};
      }
    const std::vector<RankedRun> runs = run_batches_on_ranks(setup, batches);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const BenchRow& row = load.rows[i / request_.sizes.size()];
      const PictureSize& size = request_.sizes[i % request_.sizes.size()];
      ModeMeasurement measured{row.mode, size, replicas, batches[i].requests.size()};
      take(runs[i], measured);
      if (setup.shards == ShardPlace::device) measured.copied_bytes = 0;  // within the device, not over its link
      compare(load, row, measured);
    }
  }

  void check(const RankedRun& run) const {
    if (stop_ && stop_()) fail(ErrorCode::cancelled, "the benchmark was stopped");
    for (const RankReport& rank : run.ranks)
      if (rank.fault) throw as_reason(*rank.fault);
    for (const RankedOutcome& outcome : run.outcomes)
      if (outcome.failure && outcome.failure->code != ErrorCode::cancelled)
        throw Error(outcome.failure->code, outcome.failure->message);
  }

  void take(const RankedRun& run, ModeMeasurement& measured) const {
    check(run);
    measured.host_bytes += run.shared_host_bytes;
    for (const RankReport& rank : run.ranks) add_rank(rank.totals, measured);
    if (measured.steps == 0) fail(ErrorCode::internal, "no step was measured in mode {}", measured.mode);
  }

  /// Adds the floors.
  void compare(const BenchLoad& load, const BenchRow& row, ModeMeasurement measured) {
    measured.link_ms = 1e3 * static_cast<double>(measured.copied_bytes) / slowest_link();
    const auto side = std::pair(measured.size.height, measured.size.width);
    steps_[{row.mode, side}] = measured.step_ms;
    if (const auto known = steps_.find({load.compute_of, side}); known != steps_.end())
      measured.compute_ms = known->second * static_cast<double>(row.samples) / static_cast<double>(load.divided);
    if (measured_) measured_(measured);
    result_.rows.push_back(std::move(measured));
  }

  /// Times are those of the rank whose median step is the longest.
  static void add_rank(const RankTotals& totals, ModeMeasurement& measured) {
    measured.host_bytes += totals.host_bytes;
    measured.device_peak_bytes = std::max(measured.device_peak_bytes, totals.device_peak_bytes);
    const std::vector<double> steps = measured_steps(totals);
    if (steps.empty() || steps[steps.size() / 2] <= measured.step_ms) return;
    measured.steps = steps.size();
    measured.step_ms = steps[steps.size() / 2];
    measured.slowest_step_ms = steps.back();
    measured.copied_bytes = totals.copied_bytes / totals.passes;
    measured.gathered_bytes = totals.gathered_bytes / totals.passes;
    measured.stall_ms = milliseconds(totals.stall) / static_cast<double>(totals.passes);
  }

  double slowest_link() const { return *std::ranges::min_element(result_.link_bytes_per_second); }

  /// What a lone request pays for replicas that only gather.
  void compare_idle() {
    for (const ModeMeasurement& idle : result_.rows) {
      if (idle.mode != "idle") continue;
      const auto busy = std::ranges::find_if(
          result_.rows, [&](const ModeMeasurement& row) { return row.mode == "gather" && row.size == idle.size; });
      result_.notes.push_back(
          fmt::format("{}x{}: a lone request's step beside idle replicas is {:.3f} of its floor{}", idle.size.width,
                      idle.size.height, idle.step_ms / idle.floor_ms(),
                      busy == result_.rows.end()
                          ? ""
                          : fmt::format(", {:.3f} of the step beside busy ones", idle.step_ms / busy->step_ms)));
    }
  }

  EngineConfig config_;
  const ModeBenchmarkRequest& request_;
  const std::function<void(const ModeMeasurement&)>& measured_;
  const std::function<bool()>& stop_;
  std::map<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>, double> steps_;  // by mode and size, ms
  ModeBenchmark result_;
};

}  // namespace

double ModeMeasurement::floor_ms() const {
  return std::max(compute_ms.value_or(0), link_ms);
}

ModeBenchmark run_mode_benchmark(const EngineConfig& config, const ModeBenchmarkRequest& request,
                                 const std::function<void(const ModeMeasurement&)>& measured,
                                 const std::function<bool()>& stop) {
  expects(!request.sizes.empty() && !request.modes.empty() && request.steps >= 1, "a benchmark of nothing");
  check_modes(config, request);
  return ModeRunner(config, request, measured, stop).run();
}

Json mode_benchmark_json(const ModeBenchmark& benchmark) {
  Json rows = Json::array();
  for (const ModeMeasurement& row : benchmark.rows)
    rows.push_back({{"mode", row.mode},
                    {"height", row.size.height},
                    {"width", row.size.width},
                    {"replicas", row.replicas},
                    {"requests", row.requests},
                    {"steps", row.steps},
                    {"step_ms", row.step_ms},
                    {"slowest_step_ms", row.slowest_step_ms},
                    {"compute_ms", row.compute_ms ? Json(*row.compute_ms) : Json(nullptr)},
                    {"link_ms", row.link_ms},
                    {"floor_ms", row.floor_ms()},
                    {"ratio_to_floor", row.floor_ms() > 0 ? Json(row.step_ms / row.floor_ms()) : Json(nullptr)},
                    {"stall_ms", row.stall_ms},
                    {"copied_bytes", row.copied_bytes},
                    {"gathered_bytes", row.gathered_bytes},
                    {"device_peak_bytes", row.device_peak_bytes},
                    {"host_bytes", row.host_bytes},
                    {"images_steps_per_second", row.throughput()}});
  return {{"device", benchmark.device},
          {"ranks", benchmark.ranks},
          {"link_bytes_per_second", benchmark.link_bytes_per_second},
          {"rows", std::move(rows)},
          {"notes", benchmark.notes}};
}

}  // namespace lamina
