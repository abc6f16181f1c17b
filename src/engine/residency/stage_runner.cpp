#include "engine/residency/stage_runner.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

namespace lamina {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Frees the part when the stage ends, however it ends.
class ActiveScope {
 public:
  explicit ActiveScope(PartHost& host) : host_(host) {}
  ~ActiveScope() {
    try {
      host_.release();
    } catch (const std::exception& error) {
      spdlog::error("a stage's part could not be released: {}", error.what());
    }
  }
  ActiveScope(const ActiveScope&) = delete;
  ActiveScope& operator=(const ActiveScope&) = delete;

 private:
  PartHost& host_;
};

void tell(const ProgressFunction& progress, const Stage& stage, std::size_t passes_done,
          std::chrono::nanoseconds elapsed, std::chrono::nanoseconds stall) {
  if (!progress) return;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  progress({.stage = stage.name(),
            .pass = passes_done,
            .passes = stage.passes(),
            .seconds_per_pass = passes_done > 0 ? seconds / static_cast<double>(passes_done) : 0,
            .stall_share = seconds > 0 ? std::chrono::duration<double>(stall).count() / seconds : 0});
}

}  // namespace

StageRunner::StageRunner(Device& device, Stream& compute, PartHost& host, const std::vector<ModelPart>& parts)
    : device_(device), compute_(compute), host_(host), parts_(parts), uploader_(device, compute, kUploadBufferBytes) {}

StageNeed StageRunner::measure(Stage& stage) {
  const ModelPart& part = parts_.at(stage.part());
  const ShapeOnlyBinding shapes(part.parameters);
  Arena arena;
  ops::OpContext context = ops::OpContext::planning(compute_);
  stage.lay_out(arena);
  const std::size_t units = stage.passes() > 0 ? part.plan.stacks.at(stage.stack()).units.size() : 0;
  for (PassMember* member : stage.members()) {
    member->begin(context);
    for (std::size_t unit = 0; unit < units; ++unit) member->run_unit(unit, context);
    member->finish(context);
  }
  stage.run_outside(context);
  return {.stage = stage.name(),
          .is_divided = stage.is_divided(),
          .part = host_.memory_of(stage.part()),
          .kept_bytes = host_.kept_bytes_besides(stage.part()),
          .activation_bytes = arena.peak_bytes(),
          .workspace_bytes = context.peak_bytes(),
          .result_bytes = stage.result_bytes()};
}

bool StageRunner::fits(const StageNeed& need) const {
  const auto limit = device_.memory().use().limit_bytes;
  return !limit || need.total_bytes() <= *limit;
}

void StageRunner::check_fits(const StageNeed& need) const {
  if (fits(need)) return;
  const MemoryUse memory = device_.memory().use();
  fail(ErrorCode::out_of_device_memory,
       "stage '{}'{} needs {} ({}ring {}, resident blocks {}, outside blocks {}, other parts {}, activations {}, "
       "workspace {}): {} bytes, and {} are allowed{}, {}; {}",
       need.stage, need.is_divided ? " in bands" : "", format_size(need.total_bytes()),
       need.part.shard_bytes > 0 ? fmt::format("shards {}, ", format_size(need.part.shard_bytes)) : "",
       format_size(need.part.ring_bytes), format_size(need.part.resident_bytes), format_size(need.part.outside_bytes),
       format_size(need.kept_bytes), format_size(need.activation_bytes), format_size(need.workspace_bytes),
       need.total_bytes(), *memory.limit_bytes, memory.limit_source.empty() ? "" : " by " + memory.limit_source,
       format_size(*memory.limit_bytes),
       host_.options().stream ? "a smaller picture, fewer slots or fewer resident layers need less"
                              : "stream the weights with --enable-distributed-layerwise-offload");
}

StageReport StageRunner::run(Stage& stage, const StageNeed& need, const ProgressFunction& progress) {
  const SteadyClock::time_point start = SteadyClock::now();
  device_.memory().reset_peak();
  StageReport report;
  report.need = need;
  report.part = stage.part();
  report.stack = stage.stack();
  report.passes = stage.passes();

  const ActiveScope scope(host_);
  ActivePart& part = host_.activate(stage.part());
  const DeviceBuffer activations = device_.allocate(need.activation_bytes, "activations");
  const DeviceBuffer workspace = device_.allocate(need.workspace_bytes, "workspace");
  Arena arena(activations.data(), activations.size_bytes());
  ops::OpContext context(compute_, workspace.data(), workspace.size_bytes());

  stage.lay_out(arena);
  stage.upload(uploader_);
  if (stage.passes() > 0) {
    compute_.synchronize();
    const SteadyClock::time_point passes_start = SteadyClock::now();
    run_passes(stage, part.stream(), context, progress);
    report.timeline = part.stream().take_timeline();
    report.statistics = part.stream().take_statistics();
    report.passes_duration = SteadyClock::now() - passes_start;
    tell(progress, stage, stage.passes(), report.passes_duration, report.statistics.stall);
  }
  stage.run_outside(context);
  stage.download(compute_);
  compute_.synchronize();
  stage.collect();
  report.memory = device_.memory().use();
  report.duration = SteadyClock::now() - start;
  return report;
}

void StageRunner::run_passes(Stage& stage, BlockStream& stream, ops::OpContext& context,
                             const ProgressFunction& progress) {
  const std::vector<PassMember*> members = stage.members();
  const std::size_t units = parts_[stage.part()].plan.stacks[stage.stack()].units.size();
  const SteadyClock::time_point start = SteadyClock::now();
  for (std::size_t pass = 0; pass < stage.passes(); ++pass) {
    // Waits for the pass before the last one: pass - 1 passes are done.
    stream.begin_pass(stage.stack());
    if (pass > 0) tell(progress, stage, pass - 1, SteadyClock::now() - start, stream.stall_so_far());
    if (pass + 1 < stage.passes()) stream.announce_next(stage.stack());
    for (PassMember* member : members) member->begin(context);
    for (std::size_t unit = 0; unit < units; ++unit) {
      UnitLease lease = stream.enter(unit);
      for (PassMember* member : members) member->run_unit(unit, context);
      lease.leave();
    }
    for (PassMember* member : members) member->finish(context);
    stream.end_pass();
  }
}

}  // namespace lamina
