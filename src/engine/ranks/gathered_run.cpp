#include "engine/ranks/gathered_run.h"

#include <span>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace lamina {
namespace {

using std::chrono::nanoseconds;

Json to_json(const RankTotals& totals) {
  return {totals.passes,        totals.copied_bytes, totals.gathered_bytes,
          totals.stall.count(), totals.host_bytes,   totals.device_peak_bytes};
}

RankTotals totals_from(const Json& json) {
  return {.passes = json[0],
          .copied_bytes = json[1],
          .gathered_bytes = json[2],
          .stall = nanoseconds(json[3].get<std::int64_t>()),
          .host_bytes = json[4],
          .device_peak_bytes = json[5],
          .pass_ends = {}};
}

Json to_json(const CouplingReport& coupling) {
  return {coupling.passes, coupling.working.count(), coupling.lost.count(), coupling.idle.count()};
}

CouplingReport coupling_from(const Json& json) {
  const auto time = [&](std::size_t field) { return nanoseconds(json[field].get<std::int64_t>()); };
  return {json[0], time(1), time(2), time(3)};
}

std::string to_text(const RankedRun& run) {
  Json json{{"ranks", Json::array()}, {"coupling", Json::array()}, {"made", Json::array()}, {"failed", Json::array()}};
  json["shared_host_bytes"] = run.shared_host_bytes;
  for (const RankReport& rank : run.ranks) json["ranks"].push_back(to_json(rank.totals));
  for (const CouplingReport& coupling : run.coupling) json["coupling"].push_back(to_json(coupling));
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    const RankedOutcome& outcome = run.outcomes[i];
    if (outcome.result) json["made"].push_back({i, outcome.rank});
    if (outcome.failure)
      json["failed"].push_back({i, static_cast<int>(outcome.failure->code), outcome.failure->message});
  }
  // Messages may quote file names that are no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Adds what one process knows. A lockstep group's coupling is known where it has ranks.
void add(const Json& json, RankedRun& run) {
  for (const Json& totals : json["ranks"])
    run.ranks.push_back({.totals = totals_from(totals), .fault = {}, .has_served = true});
  run.shared_host_bytes += json["shared_host_bytes"].get<std::size_t>();
  for (std::size_t i = 0; i < run.coupling.size(); ++i)
    if (run.coupling[i].passes == 0) run.coupling[i] = coupling_from(json["coupling"][i]);
  for (const Json& made : json["made"]) run.outcomes.at(made[0]).rank = made[1];
  for (const Json& failed : json["failed"])
    run.outcomes.at(failed[0]).failure = Failure{static_cast<ErrorCode>(failed[1].get<int>()), failed[2]};
}

}  // namespace

RankedRun gather_run(RankConnector& connector, const RankedRun& own) {
  const auto exchange = std::move(connector.connect_hosts("results", connector.first_ranks()).front());
  const std::string text = to_text(own);
  const auto bytes = std::as_bytes(std::span(text));

  RankedRun run;
  run.local = {0, connector.world_size()};
  run.outcomes.resize(own.outcomes.size());
  run.coupling.resize(own.coupling.size());
  for (const std::vector<std::byte>& part : exchange->all_gather({bytes.begin(), bytes.end()}))
    add(parse_json({reinterpret_cast<const char*>(part.data()), part.size()}, "a process's results"), run);
  return run;
}

}  // namespace lamina
