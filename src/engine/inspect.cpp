#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/host_memory_budget.h"
#include "base/json.h"
#include "engine/config/options.h"
#include "engine/config/select_device.h"
#include "engine/reports/host_memory_report.h"
#include "engine/residency/host_backing.h"
#include "engine/residency/host_need.h"
#include "lamina/engine.h"
#include "offload/active_part.h"
#include "offload/unit_layout.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina {
namespace {

struct StackRow {
  const Stack& stack;
  const std::vector<bool>& resident;
};

void count_dtypes(const std::vector<ParameterGroup>& groups, std::map<std::string, std::size_t>& bytes) {
  for (const ParameterGroup& group : groups)
    bytes[std::string(to_string(group.runtime.dtype))] += group.runtime.size_bytes();
}

std::map<std::string, std::size_t> dtype_bytes(const OffloadPlan& plan) {
  std::map<std::string, std::size_t> bytes;
  count_dtypes(plan.outside, bytes);
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) count_dtypes(unit.groups, bytes);
  return bytes;
}

Json stack_json(const StackRow& row) {
  Json units = Json::array();
  std::size_t total = 0;
  for (std::size_t i = 0; i < row.stack.units.size(); ++i) {
    const StreamUnit& unit = row.stack.units[i];
    const std::size_t size = UnitLayout::of(unit.groups).size_bytes;
    total += size;
    units.push_back({{"block", unit.block},
                     {"part", unit.part},
                     {"bytes", size},
                     {"on_device", row.resident[i] ? "resident" : "streamed"}});
  }
  return {{"name", row.stack.name},
          {"phase", std::string(to_string(row.stack.phase))},
          {"bytes", total},
          {"units", std::move(units)}};
}

/// Where the part's weights would be on the host, and why not in the files. Null where none stays on the host.
Json backing_json(const HostWeightPlan& plan, const OffloadOptions& options) {
  if (!options.stream) return nullptr;
  const bool refused = plan.refusal != MappingRefusal::none;
  return {{"backing", to_string(plan.backing)},
          {"refusal", refused ? Json(to_string(plan.refusal)) : Json(nullptr)},
          {"reason", refused ? Json(plan.reason) : Json(nullptr)}};
}

Json part_json(const ModelPart& part, const HostWeightPlan& host, const OffloadOptions& options) {
  const PartMemory memory = plan_memory(part.plan, options.residency());
  Json stacks = Json::array();
  std::size_t inside = 0;
  for (std::size_t i = 0; i < part.plan.stacks.size(); ++i) {
    stacks.push_back(stack_json({part.plan.stacks[i], memory.resident[i]}));
    inside += stacks.back()["bytes"].get<std::size_t>();
  }
  return {{"component", part.plan.component},
          {"checkpoint", part.checkpoint.path().filename().string()},
          {"host_weights", backing_json(host, options)},
          {"dtype_bytes", dtype_bytes(part.plan)},
          {"bytes_inside_blocks", inside},
          {"bytes_outside_blocks", memory.outside_bytes},
          {"device", {{"ring_bytes", memory.ring_bytes}, {"resident_bytes", memory.resident_bytes}}},
          {"streamed_bytes", inside - memory.resident_bytes},
          {"stacks", std::move(stacks)}};
}

/// "transformer_blocks 4 x 1.3 MiB (streamed)": runs of units of one list, size and place.
void append_stack_text(const Json& stack, std::string& text) {
  text += fmt::format("  stack {:<8} phase {}\n", stack["name"].get<std::string>(), stack["phase"].get<std::string>());
  const Json& units = stack["units"];
  for (std::size_t first = 0; first < units.size();) {
    const auto list_of = [](const Json& unit) {
      const std::string block = unit["block"];
      return block.substr(0, block.rfind('.')) + (unit["part"] == "all" ? "" : ": " + unit["part"].get<std::string>());
    };
    std::size_t end = first;
    while (end < units.size() && list_of(units[end]) == list_of(units[first]) &&
           units[end]["bytes"] == units[first]["bytes"] && units[end]["on_device"] == units[first]["on_device"])
      ++end;
    text += fmt::format("    {:<28} {:>3} x {:>10}  {}\n", list_of(units[first]), end - first,
                        format_size(units[first]["bytes"]), units[first]["on_device"].get<std::string>());
    first = end;
  }
}

std::string part_text(const Json& part) {
  std::string dtypes;
  for (const auto& [dtype, bytes] : part["dtype_bytes"].items()) dtypes += (dtypes.empty() ? "" : ", ") + dtype;
  std::string text = fmt::format("{} ({}): {} in blocks, {} outside; ring {}, resident blocks {}\n",
                                 part["component"].get<std::string>(), dtypes, format_size(part["bytes_inside_blocks"]),
                                 format_size(part["bytes_outside_blocks"]), format_size(part["device"]["ring_bytes"]),
                                 format_size(part["device"]["resident_bytes"]));
  if (const Json& host = part["host_weights"]; !host.is_null())
    text += fmt::format("  host weights {}{}\n", host["backing"].get<std::string>(),
                        host["reason"].is_null() ? "" : ": " + host["reason"].get<std::string>());
  for (const Json& stack : part["stacks"]) append_stack_text(stack, text);
  return text;
}

/// Why loading would be refused, as it stands now; null where it would not.
Json refusal_json(const HostMemoryBudget& budget, const std::vector<MemoryNeed>& needs) {
  try {
    budget.check_fits(needs, "loading the model", "raise the limit");
    return nullptr;
  } catch (const Error& error) {
    return error.message();
  }
}

Json host_json(const HostMemoryBudget& budget, const std::vector<MemoryNeed>& needs) {
  Json host = host_memory_json(budget);
  for (const MemoryNeed& need : needs) host["loading"][need.part + "_bytes"] = need.size_bytes;
  host["refusal"] = refusal_json(budget, needs);
  return host;
}

std::string host_text(const Json& host) {
  std::string needs;
  for (const auto& [part, bytes] : host["loading"].items())
    needs += fmt::format("{}{} {}", needs.empty() ? "" : ", ", part.substr(0, part.find('_')), format_size(bytes));
  const Json& refusal = host["refusal"];
  return fmt::format("host memory: loading takes {}\n{}{}", needs,
                     refusal.is_null() ? "" : fmt::format("  does not fit: {}\n", refusal.get<std::string>()),
                     host_memory_text(host));
}

}  // namespace

Inspection inspect(const EngineConfig& config, const InspectOptions& inspect_options) {
  OffloadOptions options = offload_options(config);
  const DeviceKind device = choose_device(config.device).kind;
  const std::shared_ptr<HostMemoryBudget> budget = process_host_memory(config.host_memory_bytes);
  const ModelFolder folder = ModelFolder::open(config.model);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(folder, pipeline_options(config, device));
  Json report = {{"model", folder.path().filename().string()},
                 {"pipeline", folder.class_name()},
                 {"offload", options.stream ? "dlo" : "off"},
                 {"parts", Json::array()}};
  std::string text =
      fmt::format("{} ({}), offload {}\n", folder.path().string(), folder.class_name(), options.stream ? "dlo" : "off");
  const std::vector<ModelPart>& parts = pipeline->parts();
  options.host_backing = choose_host_backing(device, *budget, parts, options);
  const std::vector<HostWeightPlan> plans = plan_host_weights(parts, options);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    report["parts"].push_back(part_json(parts[part], plans[part], options));
    text += part_text(report["parts"].back());
  }
  if (inspect_options.memory) {
    report["host"] = host_json(*budget, loading_need(parts, plans, options.residency()));
    text += host_text(report["host"]);
  }
  return {.text = text, .json = report.dump(2, ' ', false, Json::error_handler_t::replace)};
}

}  // namespace lamina
