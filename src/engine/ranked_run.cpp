#include "engine/ranked_run.h"

#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "comm/host_exchange.h"
#include "comm/local/local_communicator.h"
#include "engine/host_images.h"
#include "engine/milliseconds.h"
#include "engine/rank_loop.h"

namespace lamina {
namespace {

/// The first thing that went wrong in a lockstep group.
class FirstFault {
 public:
  /// The first one, which is `fault` unless there was one before.
  Fault note(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = fault;
    return *first_;
  }

 private:
  std::mutex mutex_;
  std::optional<Fault> first_;
};

/// Ranks that go from pass to pass together.
struct LockstepGroup {
  std::size_t first_rank = 0;
  std::vector<std::unique_ptr<Communicator>> weights;  ///< by rank of the group; empty: nothing is gathered
  std::vector<std::unique_ptr<HostExchange>> rounds;
  std::vector<std::size_t> requests;  ///< indices of those it serves
  FirstFault fault;
};

/// The exception that is being handled.
Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, error.what());
  }
}

class RankedRunner {
 public:
  RankedRunner(const RankedSetup& setup, const std::vector<GenerateRequest>& requests,
               const std::function<void()>& passed)
      : setup_(setup),
        requests_(requests),
        passed_(passed),
        images_(setup.replicas, [&setup] { return setup.create_device(0); }) {
    expects(setup.replicas > 0 && !(setup.gathers_weights && setup.replicas == 1), "{} replicas that gather: {}",
            setup.replicas, setup.gathers_weights);
    run_.outcomes.resize(requests.size());
    run_.ranks.resize(setup.replicas);
    form_groups();
  }

  RankedRun run() {
    std::vector<std::thread> threads;
    for (const auto& group : groups_)
      for (std::size_t rank = 0; rank < group->rounds.size(); ++rank)
        threads.emplace_back([this, &group = *group, rank] { run_rank(group, rank); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& group : groups_) settle_rest(*group);
    run_.shared_host_bytes = images_.size_bytes();
    return std::move(run_);
  }

 private:
  void form_groups();
  void run_rank(LockstepGroup& group, std::size_t rank) noexcept;
  void serve(LockstepGroup& group, std::size_t rank);
  std::vector<ScheduledRequest> arrivals(const LockstepGroup& group, const std::vector<PreparedRequest>& prepared);
  void end_group(LockstepGroup& group, std::size_t rank, const Error& error) noexcept;
  void settle_rest(const LockstepGroup& group);

  GroupRules rules(const LockstepGroup& group, const PassRunner& passes) const {
    return {.replicas = group.rounds.size(),
            .stacks = passes.stack_count(),
            .samples_per_replica = setup_.samples_per_replica,
            .wave_policy = setup_.wave_policy};
  }

  const RankedSetup& setup_;
  const std::vector<GenerateRequest>& requests_;
  const std::function<void()>& passed_;
  HostImages images_;  // outlives all ranks, whose copies read it
  std::vector<std::unique_ptr<LockstepGroup>> groups_;
  RankedRun run_;  // each part is written by one thread at a time: a request's by its replica and its leader
};

void RankedRunner::form_groups() {
  const std::size_t count = setup_.gathers_weights ? 1 : setup_.replicas;
  const std::size_t size = setup_.replicas / count;
  for (std::size_t i = 0; i < count; ++i) {
    LockstepGroup& group = *groups_.emplace_back(std::make_unique<LockstepGroup>());
    group.first_rank = i * size;
    group.rounds = create_local_exchange("rounds", size);
    if (setup_.gathers_weights)
      group.weights =
          setup_.connect ? setup_.connect(size) : create_local_group("weights", size, setup_.collective_limit);
    for (std::size_t request = i; request < requests_.size(); request += count) group.requests.push_back(request);
  }
  run_.coupling.resize(count);
}

void RankedRunner::run_rank(LockstepGroup& group, std::size_t rank) noexcept {
  try {
    serve(group, rank);
  } catch (const std::exception&) {
    end_group(group, rank, current_error());
  }
}

void RankedRunner::serve(LockstepGroup& group, std::size_t rank) {
  const std::size_t world_rank = group.first_rank + rank;
  std::optional<WeightSharing> sharing;
  if (!group.weights.empty()) sharing.emplace(WeightSharing{*group.weights[rank], setup_.chunks, setup_.shards});
  OffloadOptions offload = setup_.offload;
  offload.images = &images_;
  PassRunner passes(setup_.create_device(world_rank), setup_.open_pipeline(), offload, sharing);
  const std::vector<PreparedRequest> prepared = passes.prepare(requests_, setup_.samples_per_replica + 1);
  RankLoop loop({rules(group, passes), rank, *group.rounds[rank], passes},
                {.done =
                     [&](RequestId id, GenerateResult result) {
                       run_.outcomes[id].result = std::move(result);
                       run_.outcomes[id].rank = world_rank;
                     },
                 .settled = [&](RequestId id, const auto& failure) { run_.outcomes[id].failure = failure; },
                 .passed =
                     [&] {
                       if (world_rank == 0 && passed_) passed_();
                     }});
  try {
    loop.run(rank == 0 ? arrivals(group, prepared) : std::vector<ScheduledRequest>{});
    run_.ranks[world_rank].totals = passes.totals();
  } catch (const std::exception&) {
    end_group(group, rank, current_error());  // first: what is given up next waits for the device
    loop.fail(*run_.ranks[world_rank].fault);
  }
  if (rank == 0) run_.coupling[group.first_rank / group.rounds.size()] = loop.coupling();
}

/// What the group is to serve; a request that no rank can run is refused here.
std::vector<ScheduledRequest> RankedRunner::arrivals(const LockstepGroup& group,
                                                     const std::vector<PreparedRequest>& prepared) {
  std::vector<ScheduledRequest> arrivals;
  for (const std::size_t request : group.requests) {
    if (const std::optional<Error>& refusal = prepared[request].refusal) {
      run_.outcomes[request].failure = Failure{refusal->code(), refusal->message()};
      continue;
    }
    ScheduledRequest& arrival = arrivals.emplace_back();
    arrival.id = request;
    arrival.legs = prepared[request].legs;
    if (const auto steps = requests_[request].num_inference_steps)
      arrival.explicit_steps = static_cast<std::size_t>(*steps);
    arrival.payload = std::to_string(request);
  }
  return arrivals;
}

void RankedRunner::end_group(LockstepGroup& group, std::size_t rank, const Error& error) noexcept {
  const std::size_t world_rank = group.first_rank + rank;
  const Fault first = group.fault.note({world_rank, {error.code(), error.message()}});
  run_.ranks[world_rank].fault = first;
  const Error reason(first.failure.code, first.failure.message);
  if (!group.weights.empty()) group.weights[rank]->abort(reason);
  group.rounds[rank]->abort(reason);
}

/// Requests of a group whose leader did not live to settle them.
void RankedRunner::settle_rest(const LockstepGroup& group) {
  const std::optional<Fault>& fault = run_.ranks[group.first_rank].fault;
  if (!fault) return;
  for (const std::size_t request : group.requests) {
    RankedOutcome& outcome = run_.outcomes[request];
    if (outcome.failure || outcome.result) continue;
    outcome.failure = fault->failure;
  }
}

}  // namespace

RankedRun run_on_ranks(const RankedSetup& setup, const std::vector<GenerateRequest>& requests,
                       const std::function<void()>& passed) {
  return RankedRunner(setup, requests, passed).run();
}

std::string report_json(const RankedRun& run) {
  Json report;
  for (const RankReport& rank : run.ranks)
    report["ranks"].push_back({{"passes", rank.totals.passes},
                               {"copied_bytes", rank.totals.copied_bytes},
                               {"gathered_bytes", rank.totals.gathered_bytes},
                               {"stall_ms", milliseconds(rank.totals.stall)},
                               {"host_bytes", rank.totals.host_bytes}});
  for (const CouplingReport& coupling : run.coupling)
    report["coupling"].push_back({{"passes", coupling.passes}, {"loss", coupling.loss()}});
  report["shared_host_bytes"] = run.shared_host_bytes;
  return report.dump(2) + "\n";
}

}  // namespace lamina
