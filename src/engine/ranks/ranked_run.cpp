#include "engine/ranks/ranked_run.h"

#include <atomic>
#include <thread>
#include <utility>

#include "base/error.h"
#include "engine/ranks/rank_groups.h"
#include "engine/ranks/rank_loop.h"
#include "engine/ranks/run_facts.h"
#include "engine/residency/host_images.h"

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

LocalRanks local_ranks(const RankedSetup& setup) {
  expects(setup.connector != nullptr, "ranks without a connector");
  return setup.connector->local_ranks();
}

std::vector<GenerateRequest> requests_of(const std::vector<RankedBatch>& batches) {
  std::vector<GenerateRequest> requests;
  for (const RankedBatch& batch : batches)
    requests.insert(requests.end(), batch.requests.begin(), batch.requests.end());
  return requests;
}

/// A batch on its way. Each part of `run` is written by one thread at a time: a request's by its replica and its
/// leader.
struct RunningBatch {
  RunningBatch(const RankedBatch& batch, LocalRanks local, std::size_t groups)
      : requests(batch.requests), hooks(batch.hooks) {
    run.outcomes.resize(requests.size());
    run.local = local;
    run.ranks.resize(local.count);
    run.coupling.resize(groups);
  }

  RankReport& report(std::size_t rank) { return run.ranks.at(rank - run.local.first); }
  /// Requests are dealt to the groups in turn.
  bool serves(const LockstepGroup& group, std::size_t request) const {
    return request % run.coupling.size() == group.index;
  }

  const std::vector<GenerateRequest>& requests;
  const RankedHooks& hooks;
  std::atomic<std::size_t> passes_done = 0;
  std::atomic<std::size_t> passes_total = 0;
  RankedRun run;
};

/// The ranks of this process, on a thread each.
class RankedRunner {
 public:
  RankedRunner(const RankedSetup& setup, const std::vector<RankedBatch>& batches)
      : setup_(setup),
        images_(local_ranks(setup).count, [&setup] { return setup.create_device(local_ranks(setup).first); }) {
    // The first group of all: those behind it follow from what is compared here.
    const std::vector<std::size_t> processes = setup.connector->first_ranks();
    const auto start = std::move(setup.connector->connect_hosts("start", processes).front());
    agree_on(facts_of(setup, requests_of(batches)), *start, processes);
    groups_ = form_groups(*setup.connector, setup.topology, setup.weights);
    for (const RankedBatch& batch : batches)
      batches_.push_back(std::make_unique<RunningBatch>(batch, local_ranks(setup), groups_.size()));
  }

  std::vector<RankedRun> run() {
    std::vector<std::thread> threads;
    for (const auto& group : groups_)
      for (std::size_t i = 0; i < group->local.count; ++i)
        threads.emplace_back([this, &group = *group, i] { run_rank(group, group.local.first + i, group.ends[i]); });
    for (std::thread& thread : threads) thread.join();
    std::vector<RankedRun> runs;
    for (const auto& batch : batches_) {
      for (const auto& group : groups_) settle_rest(*batch, *group);
      batch->run.shared_host_bytes = images_.size_bytes();
      runs.push_back(std::move(batch->run));
    }
    return runs;
  }

 private:
  void run_rank(LockstepGroup& group, std::size_t rank, RankEnds& ends) noexcept;
  void serve_all(LockstepGroup& group, std::size_t rank, RankEnds& ends);
  void serve(RunningBatch& batch, LockstepGroup& group, std::size_t rank, RankEnds& ends, PassRunner& passes);
  Fault end_group(LockstepGroup& group, std::size_t rank, const Error& error) noexcept;

  static RankLoop::Listener listener(RunningBatch& batch, const LockstepGroup& group, std::size_t rank);
  static std::vector<ScheduledRequest> arrivals(RunningBatch& batch, const LockstepGroup& group,
                                                const std::vector<PreparedRequest>& prepared);
  static std::size_t passes_of(const RunningBatch& batch, const LockstepGroup& group,
                               const std::vector<PreparedRequest>& prepared);
  static void settle_rest(RunningBatch& batch, const LockstepGroup& group);

  std::optional<WeightSharing> sharing(const RankEnds& ends) const;
  GroupRules rules(const LockstepGroup& group, const PassRunner& passes) const;

  const RankedSetup& setup_;
  HostImages images_;  // outlives all ranks, whose copies read it
  std::vector<std::unique_ptr<LockstepGroup>> groups_;
  std::vector<std::unique_ptr<RunningBatch>> batches_;
};

void RankedRunner::run_rank(LockstepGroup& group, std::size_t rank, RankEnds& ends) noexcept {
  try {
    serve_all(group, rank, ends);
  } catch (const std::exception&) {
    end_group(group, rank, current_error());
  }
}

void RankedRunner::serve_all(LockstepGroup& group, std::size_t rank, RankEnds& ends) {
  OffloadOptions offload = setup_.offload;
  offload.images = &images_;
  PassRunner passes(setup_.create_device(rank), setup_.open_pipeline(ends.model_groups()), offload, sharing(ends));
  for (const auto& batch : batches_) {
    serve(*batch, group, rank, ends, passes);
    if (batch->report(rank).fault) return;
  }
}

void RankedRunner::serve(RunningBatch& batch, LockstepGroup& group, std::size_t rank, RankEnds& ends,
                         PassRunner& passes) {
  const std::vector<PreparedRequest> prepared = passes.prepare(batch.requests, setup_.samples_per_replica + 1);
  if (rank == group.local.first) batch.passes_total += passes_of(batch, group, prepared);
  RankLoop loop({rules(group, passes), rank - group.ranks.front(), *ends.rounds, passes}, listener(batch, group, rank));
  try {
    loop.run(rank == group.ranks.front() ? arrivals(batch, group, prepared) : std::vector<ScheduledRequest>{});
    batch.report(rank).totals = passes.take_totals();
    batch.report(rank).has_served = true;
  } catch (const std::exception&) {
    // The group ends first: what is given up next waits for the device.
    loop.fail(end_group(group, rank, current_error()));
  }
  if (rank == group.local.first) batch.run.coupling[group.index] = loop.coupling();
}

RankLoop::Listener RankedRunner::listener(RunningBatch& batch, const LockstepGroup& group, std::size_t rank) {
  return {.done =
              [&batch, rank](RequestId id, GenerateResult result) {
                batch.run.outcomes[id].result = std::move(result);
                batch.run.outcomes[id].rank = rank;
              },
          .withdrawn = [&batch](RequestId id) { batch.run.outcomes[id].result.reset(); },
          .settled = [&batch](RequestId id, const auto& failure) { batch.run.outcomes[id].failure = failure; },
          .is_cancelled = batch.hooks.is_cancelled,
          .passed =
              [&batch, &group, rank](const PassPlan& plan) {
                if (rank == group.local.first)
                  for (const std::vector<Seat>& seats : plan.replicas) batch.passes_done += seats.size();
                if (rank == batch.run.local.first && batch.hooks.passed)
                  batch.hooks.passed({batch.passes_done, batch.passes_total});
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
std::vector<ScheduledRequest> RankedRunner::arrivals(RunningBatch& batch, const LockstepGroup& group,
                                                     const std::vector<PreparedRequest>& prepared) {
  std::vector<ScheduledRequest> arrivals;
  for (std::size_t request = 0; request < batch.requests.size(); ++request) {
    if (!batch.serves(group, request)) continue;
    if (const std::optional<Error>& refusal = prepared[request].refusal) {
      batch.run.outcomes[request].failure = Failure{refusal->code(), refusal->message()};
      continue;
    }
    ScheduledRequest& arrival = arrivals.emplace_back();
    arrival.id = request;
    arrival.legs = prepared[request].legs;
    if (const auto steps = batch.requests[request].num_inference_steps)
      arrival.explicit_steps = static_cast<std::size_t>(*steps);
    arrival.payload = std::to_string(request);
  }
  return arrivals;
}

/// That the group's requests take.
std::size_t RankedRunner::passes_of(const RunningBatch& batch, const LockstepGroup& group,
                                    const std::vector<PreparedRequest>& prepared) {
  std::size_t passes = 0;
  for (std::size_t request = 0; request < prepared.size(); ++request)
    if (batch.serves(group, request))
      for (const Leg& leg : prepared[request].legs) passes += leg.passes;
  return passes;
}

/// Ends all that ties the group's ranks to each other, with the first fault, which is `error` unless there was one.
Fault RankedRunner::end_group(LockstepGroup& group, std::size_t rank, const Error& error) noexcept {
  const Fault first = group.fault.note(as_fault(error, rank));
  for (const auto& batch : batches_) {
    RankReport& report = batch->report(rank);
    if (!report.has_served) report.fault = first;
  }
  group.abort(as_reason(first));
  return first;
}

/// Requests of a group whose leader did not live to settle them.
void RankedRunner::settle_rest(RunningBatch& batch, const LockstepGroup& group) {
  const std::size_t leader = group.ranks.front();
  if (!batch.run.local.contains(leader) || !batch.report(leader).fault) return;
  for (std::size_t request = 0; request < batch.requests.size(); ++request) {
    RankedOutcome& outcome = batch.run.outcomes[request];
    if (!batch.serves(group, request) || outcome.failure || outcome.result) continue;
    outcome.failure = batch.report(leader).fault->failure;
  }
}

}  // namespace

RankedRun run_on_ranks(const RankedSetup& setup, const std::vector<GenerateRequest>& requests,
                       const RankedHooks& hooks) {
  return std::move(run_batches_on_ranks(setup, {{requests, hooks}}).front());
}

std::vector<RankedRun> run_batches_on_ranks(const RankedSetup& setup, const std::vector<RankedBatch>& batches) {
  return RankedRunner(setup, batches).run();
}

}  // namespace lamina
