#include "engine/reports/report.h"

#include "base/json.h"
#include "base/milliseconds.h"
#include "device/cpu/cpu_device.h"
#include "engine/reports/host_memory_report.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

Json settings_json(const GenerateResult& result) {
  Json settings = Json::object();
  for (const auto& [key, value] : result.settings) settings[key] = value;
  return settings;
}

/// Of the transformer: the other parts load as usual.
PartBacking transformer_backing(const ReportInput& input) {
  for (std::size_t part = 0; part < input.pipeline.parts().size(); ++part)
    if (input.pipeline.parts()[part].is_transformer) return input.host.backing_of(part);
  return {};
}

Json configuration_json(const ReportInput& input) {
  const OffloadOptions& options = input.host.options();
  const PartBacking backing = transformer_backing(input);
  const bool refused = options.stream && backing.refusal != MappingRefusal::none;
  const auto limit = input.device.memory().use().limit_bytes;
  return {{"device", input.device.name()},
          {"dtype", input.pipeline.activations() == DType::bf16 ? "bfloat16" : "float32"},
          {"cpu_threads", input.device.kind() == DeviceKind::cpu ? Json(cpu_team_size()) : Json(nullptr)},
          {"device_memory_limit_bytes", limit ? Json(*limit) : Json(nullptr)},
          {"offload", options.stream ? "dlo" : "off"},
          {"transfer", options.stream ? Json("rank-local") : Json(nullptr)},
          {"host_backing", options.stream ? to_string(backing.backing) : "checkpoint, loaded once"},
          {"host_backing_refusal", refused ? Json(to_string(backing.refusal)) : Json(nullptr)},
          {"host_backing_reason", refused ? Json(backing.reason) : Json(nullptr)},
          {"dlo_slots", options.ring_slots},
          {"dlo_resident_layers", options.resident_blocks},
          {"dlo_resident_policy", to_string(options.resident_policy)},
          {"poison_released", options.poison_released}};
}

Json host_json(const ReportInput& input) {
  Json host = host_memory_json(input.device.host_memory());
  host["weight_bytes"] = input.host.host_bytes();
  host["pinned_bytes"] = input.device.pinned_bytes();
  return host;
}

Json memory_json(const StageReport& stage) {
  Json parts = Json::object();
  for (const MemoryPart& part : stage.memory.parts)
    parts[part.name] = {{"peak_bytes", part.peak_bytes}, {"at_peak_bytes", part.at_peak_bytes}};
  return {{"planned_bytes", stage.need.total_bytes()},
          {"peak_bytes", stage.memory.peak_bytes},
          {"ring_bytes", stage.need.part.ring_bytes},
          {"parts", std::move(parts)}};
}

Json units_json(const StageReport& stage, const Stack& stack) {
  Json units = Json::array();
  for (std::size_t i = 0; i < stack.units.size(); ++i) {
    const UnitStatistics& unit = stage.statistics.units[stage.stack][i];
    units.push_back({{"block", stack.units[i].block},
                     {"part", stack.units[i].part},
                     {"bytes", UnitLayout::of(stack.units[i].groups).size_bytes},
                     {"resident", static_cast<bool>(stage.need.part.resident[stage.stack][i])},
                     {"visits", unit.visits},
                     {"fetches", unit.fetches},
                     {"copied_bytes", unit.copied_bytes},
                     {"compute_ms", milliseconds(unit.compute)},
                     {"copy_ms", milliseconds(unit.copy)},
                     {"stall_ms", milliseconds(unit.stall)},
                     {"packing_ms", milliseconds(unit.packing)},
                     {"packing_stall_ms", milliseconds(unit.packing_stall)}});
  }
  return units;
}

/// The virtual-time model on this run's mean compute times and link rate.
Json prediction_json(const StageReport& stage, const Stack& stack) {
  TimingInputs inputs;
  inputs.ring_bytes = stage.need.part.ring_bytes;
  inputs.passes = stage.passes;
  std::chrono::nanoseconds copy{0};
  std::size_t copied = 0;
  for (std::size_t i = 0; i < stack.units.size(); ++i) {
    const UnitStatistics& unit = stage.statistics.units[stage.stack][i];
    const auto visits = static_cast<std::int64_t>(std::max<std::uint64_t>(unit.visits, 1));
    inputs.units.push_back({UnitLayout::of(stack.units[i].groups).size_bytes, unit.compute / visits,
                            stage.need.part.resident[stage.stack][i]});
    copy += unit.copy;
    copied += unit.copied_bytes;
  }
  if (copied == 0 || copy.count() == 0) return nullptr;
  inputs.link_bytes_per_second = static_cast<double>(copied) / std::chrono::duration<double>(copy).count();
  const TimingPrediction prediction = predict_timing(inputs);
  return {{"link_bytes_per_second", inputs.link_bytes_per_second},
          {"total_ms", milliseconds(prediction.total)},
          {"stall_ms", milliseconds(prediction.stall)},
          {"copied_bytes", prediction.copied_bytes}};
}

Json passes_json(const StageReport& stage, const OffloadPlan& plan) {
  const Stack& stack = plan.stacks[stage.stack];
  const StreamStatistics& statistics = stage.statistics;
  std::chrono::nanoseconds packing_stall{0};
  for (const UnitStatistics& unit : statistics.units[stage.stack]) packing_stall += unit.packing_stall;
  return {{"stack", stack.name},
          {"passes", statistics.passes},
          {"copied_bytes", statistics.copied_bytes},
          {"stall_ms", milliseconds(statistics.stall)},
          {"packing_stall_ms", milliseconds(packing_stall)},
          {"skipped_visits", statistics.skipped_visits},
          {"repeated_visits", statistics.repeated_visits},
          {"demand_fetches", statistics.demand_fetches},
          {"discarded_fetches", statistics.discarded_fetches},
          {"duration_ms", milliseconds(stage.passes_duration)},
          {"prediction", prediction_json(stage, stack)},
          {"units", units_json(stage, stack)}};
}

Json stage_json(const StageReport& stage, const ModelPart& part) {
  Json json = {{"stage", stage.need.stage},
               {"component", part.plan.component},
               {"weight_bytes", weight_bytes(part.plan)},
               {"duration_ms", milliseconds(stage.duration)},
               {"maps", stage.need.is_divided ? "host" : "device"},
               {"memory", memory_json(stage)}};
  if (stage.passes > 0) json["stream"] = passes_json(stage, part.plan);
  return json;
}

}  // namespace

std::string report_json(const ReportInput& input) {
  Json stages = Json::array();
  std::size_t peak = 0;
  std::size_t model = 0;
  for (const ModelPart& part : input.pipeline.parts()) model += weight_bytes(part.plan);
  for (const StageReport& stage : input.stages) {
    stages.push_back(stage_json(stage, input.pipeline.parts()[stage.part]));
    peak = std::max(peak, stage.memory.peak_bytes);
  }
  const Json report = {{"settings", settings_json(input.result)},
                       {"configuration", configuration_json(input)},
                       {"notes", input.result.notes},
                       {"host", host_json(input)},
                       {"model_bytes", model},
                       {"device_peak_bytes", peak},
                       {"stages", std::move(stages)}};
  return report.dump(2);
}

}  // namespace lamina
