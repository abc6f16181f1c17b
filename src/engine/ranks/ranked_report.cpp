#include "base/json.h"
#include "base/milliseconds.h"
#include "engine/ranks/ranked_run.h"

namespace lamina {
namespace {

Json outcome_json(const RankedOutcome& outcome) {
  if (outcome.failure) return {{"code", to_string(outcome.failure->code)}, {"message", outcome.failure->message}};
  return {{"rank", outcome.rank}};
}

}  // namespace

std::string report_json(const RankedRun& run) {
  Json report;
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    const RankTotals& totals = run.ranks[i].totals;
    report["ranks"].push_back({{"rank", run.local.first + i},
                               {"passes", totals.passes},
                               {"copied_bytes", totals.copied_bytes},
                               {"gathered_bytes", totals.gathered_bytes},
                               {"stall_ms", milliseconds(totals.stall)},
                               {"host_bytes", totals.host_bytes},
                               {"device_peak_bytes", totals.device_peak_bytes}});
  }
  for (const CouplingReport& coupling : run.coupling)
    report["coupling"].push_back({{"passes", coupling.passes}, {"loss", coupling.loss()}});
  report["shared_host_bytes"] = run.shared_host_bytes;
  for (const RankedOutcome& outcome : run.outcomes) report["requests"].push_back(outcome_json(outcome));
  // Messages may quote file names that are no UTF-8.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lamina
