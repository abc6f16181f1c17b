#include "engine/ranked_run.h"

#include <atomic>
#include <thread>
#include <utility>

#include "base/error.h"
#include "engine/rank_groups.h"
#include "engine/rank_loop.h"
#include "engine/run_facts.h"

namespace lamina {
namespace {

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

/// The ranks of this process, on a thread each.
class RankedRunner {
 public:
  RankedRunner(const RankedSetup& setup, const std::vector<GenerateRequest>& requests, const RankedHooks& hooks)
      : setup_(setup), requests_(requests), hooks_(hooks), facts_(facts_of(setup, requests)) {
    expects(setup.connector != nullptr, "ranks without a connector");
    groups_ = form_groups(*setup.connector, setup.topology, setup.weights);
    run_.outcomes.resize(requests.size());
    run_.local = setup.connector->local_ranks();
    run_.ranks.resize(run_.local.count);
    run_.coupling.resize(groups_.size());
  }

  RankedRun run() {
    std::vector<std::thread> threads;
    for (const auto& group : groups_)
      for (std::size_t i = 0; i < group->local.count; ++i)
        threads.emplace_back([this, &group = *group, i] { run_rank(group, group.local.first + i, group.ends[i]); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& group : groups_) settle_rest(*group);
    return std::move(run_);
  }

 private:
  void run_rank(LockstepGroup& group, std::size_t rank, RankEnds& ends) noexcept;
  void serve(LockstepGroup& group, std::size_t rank, RankEnds& ends);
  RankLoop::Listener listener(const LockstepGroup& group, std::size_t rank);
  std::vector<ScheduledRequest> arrivals(const LockstepGroup& group, const std::vector<PreparedRequest>& prepared);
  std::size_t passes_of(const LockstepGroup& group, const std::vector<PreparedRequest>& prepared) const;
  Fault end_group(LockstepGroup& group, std::size_t rank, const Error& error) noexcept;
  void settle_rest(const LockstepGroup& group);

  RankReport& report(std::size_t rank) { return run_.ranks.at(rank - run_.local.first); }
  std::optional<WeightSharing> sharing(const RankEnds& ends) const;
  GroupRules rules(const LockstepGroup& group, const PassRunner& passes) const;
  /// Requests are dealt to the groups in turn.
  bool serves(const LockstepGroup& group, std::size_t request) const { return request % groups_.size() == group.index; }

  const RankedSetup& setup_;
  const std::vector<GenerateRequest>& requests_;
  const RankedHooks& hooks_;
  const RunFacts facts_;
  std::vector<std::unique_ptr<LockstepGroup>> groups_;
  std::atomic<std::size_t> passes_done_ = 0;
  std::atomic<std::size_t> passes_total_ = 0;
  RankedRun run_;  // each part is written by one thread at a time: a request's by its replica and its leader
};

void RankedRunner::run_rank(LockstepGroup& group, std::size_t rank, RankEnds& ends) noexcept {
  try {
    serve(group, rank, ends);
  } catch (const std::exception&) {
    end_group(group, rank, current_error());
  }
}

void RankedRunner::serve(LockstepGroup& group, std::size_t rank, RankEnds& ends) {
  agree_on(facts_, *ends.rounds, group.ranks);
  PassRunner passes(setup_.create_device(rank), setup_.open_pipeline(ends.model_groups()), setup_.offload,
                    sharing(ends));
  const std::vector<PreparedRequest> prepared = passes.prepare(requests_, setup_.samples_per_replica + 1);
  if (rank == group.local.first) passes_total_ += passes_of(group, prepared);
  RankLoop loop({rules(group, passes), rank - group.ranks.front(), *ends.rounds, passes}, listener(group, rank));
  try {
    loop.run(rank == group.ranks.front() ? arrivals(group, prepared) : std::vector<ScheduledRequest>{});
    report(rank).totals = passes.totals();
  } catch (const std::exception&) {
    // The group ends first: what is given up next waits for the device.
    loop.fail(end_group(group, rank, current_error()));
  }
  if (rank == group.local.first) run_.coupling[group.index] = loop.coupling();
}

RankLoop::Listener RankedRunner::listener(const LockstepGroup& group, std::size_t rank) {
  return {.done =
              [this, rank](RequestId id, GenerateResult result) {
                run_.outcomes[id].result = std::move(result);
                run_.outcomes[id].rank = rank;
              },
          .withdrawn = [this](RequestId id) { run_.outcomes[id].result.reset(); },
          .settled = [this](RequestId id, const auto& failure) { run_.outcomes[id].failure = failure; },
          .is_cancelled = hooks_.is_cancelled,
          .passed =
              [this, rank, &group](const PassPlan& plan) {
                if (rank == group.local.first)
                  for (const std::vector<Seat>& seats : plan.replicas) passes_done_ += seats.size();
                if (rank == run_.local.first && hooks_.passed) hooks_.passed({passes_done_, passes_total_});
              }};
}

std::optional<WeightSharing> RankedRunner::sharing(const RankEnds& ends) const {
  if (!ends.weights) return std::nullopt;
  return WeightSharing{*ends.weights, setup_.chunks, setup_.shards};
}

GroupRules RankedRunner::rules(const LockstepGroup& group, const PassRunner& passes) const {
  const std::size_t ranks_per_replica = setup_.topology.replica_size();
  return {.replicas = group.ranks.size() / ranks_per_replica,
          .ranks_per_replica = ranks_per_replica,
          .stacks = passes.stack_count(),
          .samples_per_replica = setup_.samples_per_replica,
          .wave_policy = setup_.wave_policy};
}

/// What the group is to serve; a request that no rank can run is refused here.
std::vector<ScheduledRequest> RankedRunner::arrivals(const LockstepGroup& group,
                                                     const std::vector<PreparedRequest>& prepared) {
  std::vector<ScheduledRequest> arrivals;
  for (std::size_t request = 0; request < requests_.size(); ++request) {
    if (!serves(group, request)) continue;
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

/// That the group's requests take.
std::size_t RankedRunner::passes_of(const LockstepGroup& group, const std::vector<PreparedRequest>& prepared) const {
  std::size_t passes = 0;
  for (std::size_t request = 0; request < prepared.size(); ++request)
    if (serves(group, request))
      for (const Leg& leg : prepared[request].legs) passes += leg.passes;
  return passes;
}

/// Ends all that ties the group's ranks to each other, with the first fault, which is `error` unless there was one.
Fault RankedRunner::end_group(LockstepGroup& group, std::size_t rank, const Error& error) noexcept {
  const Fault first = group.fault.note(as_fault(error, rank));
  report(rank).fault = first;
  group.abort(as_reason(first));
  return first;
}

/// Requests of a group whose leader did not live to settle them.
void RankedRunner::settle_rest(const LockstepGroup& group) {
  const std::size_t leader = group.ranks.front();
  if (!run_.local.contains(leader) || !report(leader).fault) return;
  for (std::size_t request = 0; request < requests_.size(); ++request) {
    RankedOutcome& outcome = run_.outcomes[request];
    if (!serves(group, request) || outcome.failure || outcome.result) continue;
    outcome.failure = report(leader).fault->failure;
  }
}

}  // namespace

RankedRun run_on_ranks(const RankedSetup& setup, const std::vector<GenerateRequest>& requests,
                       const RankedHooks& hooks) {
  return RankedRunner(setup, requests, hooks).run();
}

}  // namespace lamina
