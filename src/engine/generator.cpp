#include "engine/generator.h"

#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "engine/reports/report.h"
#include "engine/reports/trace.h"

namespace lamina {

Generator::Generator(std::unique_ptr<Device> device, std::unique_ptr<Pipeline> pipeline, const OffloadOptions& options)
    : device_(std::move(device)),
      pipeline_(std::move(pipeline)),
      compute_(device_->create_stream("compute")),
      copy_(device_->create_stream("copy")),
      host_(*device_, *compute_, *copy_, pipeline_->parts(), options),
      runner_(*device_, *compute_, host_, pipeline_->parts()) {}

GenerateResult Generator::generate(const GenerateRequest& request, const ProgressFunction& progress) {
  const std::unique_ptr<Generation> generation = pipeline_->start(request);
  std::vector<std::string> notes = generation->notes();
  for (const std::string& note : notes) spdlog::warn(note);
  std::vector<StageNeed> needs;
  for (Stage* stage : generation->stages()) needs.push_back(plan(*stage, notes));
  check_results_fit(needs);
  std::vector<StageReport> reports;
  for (std::size_t i = 0; i < needs.size(); ++i)
    reports.push_back(runner_.run(*generation->stages()[i], needs[i], progress));
  GenerateResult result = generation->result();
  result.notes = std::move(notes);
  if (host_.options().record_timeline) result.trace_json = trace_json(reports, pipeline_->parts());
  result.report_json = report_json({*device_, host_, *pipeline_, reports, result});
  stage_reports_ = std::move(reports);
  return result;
}

StageNeed Generator::plan(Stage& stage, std::vector<std::string>& notes) {
  StageNeed need = runner_.measure(stage);
  std::string reason = "as asked";
  if (!runner_.fits(need) && stage.divide()) {
    reason = fmt::format("since it needs {} whole and {} are allowed", format_size(need.total_bytes()),
                         format_size(*device_->memory().use().limit_bytes));
    need = runner_.measure(stage);
  }
  runner_.check_fits(need);
  if (!need.is_divided) return need;
  notes.push_back(fmt::format("stage '{}' streams its feature maps from host memory, {}; its result is the same",
                              need.stage, reason));
  spdlog::info(notes.back());
  return need;
}

void Generator::check_results_fit(const std::vector<StageNeed>& needs) const {
  MemoryNeed results{"results", 0};
  for (const StageNeed& need : needs) results.size_bytes += need.result_bytes;
  device_->host_memory().check_fits({&results, 1}, "the request", "raise the limit");
}

}  // namespace lamina
