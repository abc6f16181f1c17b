#include "engine/reports/host_memory_report.h"

#include <fmt/format.h>

#include <utility>

#include "base/bytes.h"
#include "base/process_memory.h"

namespace lamina {
namespace {

Json or_null(const std::optional<std::size_t>& size_bytes) {
  return size_bytes ? Json(*size_bytes) : Json(nullptr);
}

Json budget_json(const MemoryUse& use) {
  Json parts = Json::object();
  for (const MemoryPart& part : use.parts)
    parts[part.name] = {{"used_bytes", part.used_bytes}, {"peak_bytes", part.peak_bytes}};
  return {{"limit_bytes", or_null(use.limit_bytes)},
          {"used_bytes", use.used_bytes},
          {"peak_bytes", use.peak_bytes},
          {"parts", std::move(parts)}};
}

Json process_json(const std::optional<ProcessMemory>& memory) {
  if (!memory) return nullptr;
  return {{"pss_bytes", memory->pss_bytes},
          {"private_clean_bytes", memory->private_clean_bytes},
          {"private_dirty_bytes", memory->private_dirty_bytes},
          {"shared_clean_bytes", memory->shared_clean_bytes},
          {"shared_dirty_bytes", memory->shared_dirty_bytes},
          {"locked_bytes", memory->locked_bytes},
          {"pinned_bytes", memory->pinned_bytes}};
}

std::string row(std::string_view name, const std::string& value) {
  return fmt::format("  {:<14}{}\n", name, value);
}

std::string size_text(const Json& size_bytes) {
  return size_bytes.is_null() ? "not told by the system" : format_size(size_bytes.get<std::size_t>());
}

std::string process_text(const Json& process) {
  if (process.is_null()) return "not told by the system";
  const auto sum = [&](const char* a, const char* b) {
    return format_size(process[a].get<std::size_t>() + process[b].get<std::size_t>());
  };
  return fmt::format("private dirty {}, private clean {}, shared (mapped) {}, PSS {}, pinned {}",
                     size_text(process["private_dirty_bytes"]), size_text(process["private_clean_bytes"]),
                     sum("shared_clean_bytes", "shared_dirty_bytes"), size_text(process["pss_bytes"]),
                     sum("locked_bytes", "pinned_bytes"));
}

}  // namespace

Json host_memory_json(const HostMemoryBudget& budget) {
  Json limits = Json::array();
  for (const MemoryLimit& limit : budget.system_limits())
    limits.push_back(
        {{"source", limit.source}, {"limit_bytes", limit.limit_bytes}, {"in_use_bytes", or_null(limit.in_use_bytes)}});
  return {{"budget", budget_json(budget.use())},
          {"system_limits", std::move(limits)},
          {"available_bytes", or_null(read_available_memory(budget.root()))},
          {"process", process_json(read_process_memory(budget.root()))}};
}

std::string host_memory_text(const Json& host_memory) {
  const Json& budget = host_memory["budget"];
  const Json& limit = budget["limit_bytes"];
  std::string text = row("budget", fmt::format("{} used, {} allowed", size_text(budget["used_bytes"]),
                                               limit.is_null() ? "any amount" : size_text(limit)));
  for (const Json& group : host_memory["system_limits"])
    text += row("limit", fmt::format("{} by {}, {} in use", size_text(group["limit_bytes"]),
                                     group["source"].get<std::string>(), size_text(group["in_use_bytes"])));
  text += row("available", size_text(host_memory["available_bytes"]));
  return text + row("this process", process_text(host_memory["process"]));
}

}  // namespace lamina
