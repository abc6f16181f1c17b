#include "engine/reports/trace.h"

#include "base/json.h"

namespace lamina {
namespace {

enum Track { kCompute = 1, kCopy = 2 };

Json track_name(Track track, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

/// Times are microseconds in this format.
double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

class Slices {
 public:
  Slices(std::string category, Json& events) : category_(std::move(category)), events_(events) {}

  void add(Track track, const std::string& name, std::chrono::nanoseconds begin, std::chrono::nanoseconds end,
           std::size_t pass) {
    if (end <= begin) return;
    events_.push_back({{"name", name},
                       {"cat", category_},
                       {"ph", "X"},
                       {"pid", 1},
                       {"tid", track},
                       {"ts", microseconds(begin)},
                       {"dur", microseconds(end - begin)},
                       {"args", {{"pass", pass}}}});
  }

 private:
  std::string category_;
  Json& events_;
};

void add_stage(const StageReport& stage, const OffloadPlan& plan, Json& events) {
  Slices slices(stage.need.stage, events);
  for (const VisitTiming& visit : stage.timeline) {
    const StreamUnit& unit = plan.stacks[stage.stack].units[visit.unit];
    slices.add(kCopy, unit.block, visit.copy_begin, visit.copy_end, visit.pass);
    slices.add(kCompute, "stall", visit.compute_begin - visit.stall, visit.compute_begin, visit.pass);
    slices.add(kCompute, unit.block, visit.compute_begin, visit.compute_end, visit.pass);
  }
}

}  // namespace

std::string trace_json(const std::vector<StageReport>& stages, const std::vector<ModelPart>& parts) {
  Json events = Json::array({track_name(kCompute, "compute stream"), track_name(kCopy, "copy stream")});
  for (const StageReport& stage : stages)
    if (!stage.timeline.empty()) add_stage(stage, parts[stage.part].plan, events);
  return Json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}).dump();
}

}  // namespace lamina
