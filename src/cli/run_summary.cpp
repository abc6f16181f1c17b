#include "cli/run_summary.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/json.h"

namespace lamina {
namespace {

std::string row(std::string_view name, const std::string& value) {
  return fmt::format("  {:<22}{}\n", name, value);
}

std::string describe_stream(const Json& stage) {
  const Json& stream = stage["stream"];
  std::size_t resident = 0;
  for (const Json& unit : stream["units"]) resident += unit["resident"].get<bool>() ? 1 : 0;
  const double stall = stream["stall_ms"].get<double>();
  const double duration = stream["duration_ms"].get<double>();
  return fmt::format(
      "{} blocks ({} resident) x {} passes, {} streamed, peak {} for {} of weights, {:.2f} s, stall {:.1f} %",
      stream["units"].size(), resident, stream["passes"].get<std::size_t>(), format_size(stream["copied_bytes"]),
      format_size(stage["memory"]["peak_bytes"]), format_size(stage["weight_bytes"]), duration / 1000,
      duration > 0 ? 100 * stall / duration : 0.0);
}

}  // namespace

std::string summarize_run(const GenerateResult& result) {
  const Json report = parse_json(result.report_json, "report");
  std::string text;
  for (const Json& stage : report["stages"])
    text += row(stage["stage"].get<std::string>(),
                stage.contains("stream") ? describe_stream(stage)
                                         : fmt::format("{:.2f} s", stage["duration_ms"].get<double>() / 1000));
  const Json& limit = report["configuration"]["device_memory_limit_bytes"];
  text += row("device peak",
              fmt::format("{}, model {}, allowed {}", format_size(report["device_peak_bytes"]),
                          format_size(report["model_bytes"]), limit.is_null() ? "unlimited" : format_size(limit)));
  const Json& host_limit = report["host"]["budget"]["limit_bytes"];
  text +=
      row("host peak", fmt::format("{}, weights {}, allowed {}", format_size(report["host"]["budget"]["peak_bytes"]),
                                   format_size(report["host"]["weight_bytes"]),
                                   host_limit.is_null() ? "unlimited" : format_size(host_limit)));
  return text;
}

}  // namespace lamina
