#include "engine/scheduler_simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>

#include "engine/lockstep/proposal_bytes.h"

namespace lamina::testing {
namespace {

/// More than any scenario takes.
constexpr std::size_t kMostEvents = 1'000'000;

/// A rank and what surrounds it: its half of the control plane, its devices, its end.
struct Node {
  Node(const GroupRules& rules, std::size_t rank, const SimulatedWorld& world, std::uint64_t seed)
      : scheduler(rules, rank), loop(world, rank, seed) {}

  PassScheduler scheduler;
  SimulatedRank loop;
  RankResult result;
  nanoseconds compute{0};  // of the running pass
  bool lanes_stopped = false;
  bool ended = false;
};

/// A collective on its way: the ranks that have entered it.
struct Meeting {
  CollectiveRecord record;
  std::vector<std::size_t> ranks;
};

struct Happening {
  nanoseconds time;
  std::uint64_t order;
  std::function<void()> what;
  bool operator>(const Happening& other) const { return std::tie(time, order) > std::tie(other.time, other.order); }
};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario);
  SimulationResult run();

 private:
  void at(nanoseconds time, std::function<void()> what) { happenings_.push({time, ++order_, std::move(what)}); }
  nanoseconds jittered(nanoseconds time);
  void schedule_clients();
  void strike();
  bool is_alive(std::size_t rank) const { return !nodes_[rank]->ended; }

  void feed(std::size_t rank, const SchedulerEvent& event);
  void perform(std::size_t rank, const action::Propose& action);
  void perform(std::size_t rank, const action::Reserve& action);
  void perform(std::size_t rank, const action::Release& action);
  void perform(std::size_t rank, const action::RunPass& action);
  void perform(std::size_t rank, const action::Rest& action);
  void perform(std::size_t rank, const action::Settle& action);
  void perform(std::size_t rank, const action::AwaitReason& action);
  void perform(std::size_t rank, const action::FailGroup& action);
  void perform(std::size_t rank, const action::EndGroup& action);
  void end(std::size_t rank);

  void advance(std::size_t rank);
  void start(std::size_t rank, LaneKind kind);
  void meet(std::size_t rank, const LaneItem& item);
  void finish(std::size_t rank, LaneKind kind);
  void finish_compute(std::size_t rank, const LaneItem& item);
  void leave_unit(std::size_t rank, const LaneItem& item);
  bool fire_watchdog();
  void check_end();
  void fault(std::string sentence) { result_.faults.push_back(std::move(sentence)); }

  const Scenario& scenario_;
  Topology topology_;
  std::map<RequestId, SimulatedRequest> requests_;
  SimulatedWorld world_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  std::uint64_t order_ = 0;
  nanoseconds now_{0};
  std::map<std::tuple<GroupKind, std::size_t, std::size_t>, Meeting> meetings_;
  std::vector<std::optional<Proposal>> round_;  // what was proposed in the round that is on
  std::deque<std::pair<std::size_t, SchedulerEvent>> pending_;
  bool feeding_ = false;
  SimulationResult result_;
};

std::map<RequestId, SimulatedRequest> by_id(const std::vector<SimulatedRequest>& requests) {
  std::map<RequestId, SimulatedRequest> result;
  for (const SimulatedRequest& request : requests) result.emplace(request.request.id, request);
  return result;
}

/// Over which ranks weights are gathered, if at all.
std::optional<GroupKind> gathering_group(const Scenario& scenario, const Topology& topology) {
  if (scenario.sizes.use_hsdp) return GroupKind::shard;
  if (!scenario.gathers_weights || topology.group(GroupKind::offload, 0).size() == 1) return std::nullopt;
  return topology.sizes().data > 1 ? GroupKind::data : GroupKind::sequence;
}

Simulation::Simulation(const Scenario& scenario)
    : scenario_(scenario),
      topology_(scenario.sizes),
      requests_(by_id(scenario.requests)),
      world_{topology_,
             scenario.stacks,
             requests_,
             gathering_group(scenario, topology_),
             scenario.link_bytes_per_second,
             scenario.gather_bytes_per_second,
             scenario.slots,
             scenario.jitter},
      random_(scenario.seed),
      round_(topology_.world_size()) {
  const GroupRules rules{.replicas = topology_.replica_count(),
                         .ranks_per_replica = topology_.replica_size(),
                         .stacks = scenario.stacks.size(),
                         .samples_per_replica = scenario.samples_per_replica,
                         .wave_policy = scenario.wave_policy};
  for (std::size_t rank = 0; rank < topology_.world_size(); ++rank)
    nodes_.push_back(std::make_unique<Node>(rules, rank, world_, random_()));
  if (scenario.swap) nodes_[scenario.swap->rank]->loop.plant_swap(scenario.swap->collective);
}

nanoseconds Simulation::jittered(nanoseconds time) {
  const double share = double(random_() >> 11) * 0x1p-53;
  return nanoseconds(static_cast<std::int64_t>(double(time.count()) * (1 + scenario_.jitter * share)));
}

void Simulation::schedule_clients() {
  nanoseconds last{0};
  for (const auto& [id, request] : requests_) {
    at(request.arrival, [this, request = &request.request] { feed(0, event::Arrived{*request}); });
    if (request.cancelled_at) at(*request.cancelled_at, [this, number = id] { feed(0, event::Cancelled{number}); });
    last = std::max({last, request.arrival, request.cancelled_at.value_or(nanoseconds{0})});
  }
  at(last, [this] { feed(0, event::StopRequested{}); });
}

SimulationResult Simulation::run() {
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank)
    at(nanoseconds{0}, [this, rank] { feed(rank, event::Started{}); });
  schedule_clients();
  do {
    while (!happenings_.empty() && result_.faults.empty()) {
      if (scenario_.fault && scenario_.fault->event == result_.events) strike();
      if (++result_.events > kMostEvents) fault("no end in sight: the control plane goes round and round");
      const Happening next = happenings_.top();
      happenings_.pop();
      now_ = next.time;
      next.what();
    }
  } while (result_.faults.empty() && fire_watchdog());
  check_end();
  result_.coupling = nodes_[0]->scheduler.schedule().coupling();
  for (const auto& node : nodes_) {
    node->result.ledger.data = node->loop.ledger.data;
    result_.ranks.push_back(std::move(node->result));
  }
  return std::move(result_);
}

void Simulation::strike() {
  const std::size_t rank = scenario_.fault->rank;
  if (!is_alive(rank)) return;
  result_.fault_at = now_;
  switch (scenario_.fault->kind) {
    case SimulatedFault::Kind::stuck: nodes_[rank]->lanes_stopped = true; return;
    case SimulatedFault::Kind::reported:
      feed(rank, event::Faulted{{rank, {ErrorCode::device, "the planted fault"}}});
      return;
    case SimulatedFault::Kind::killed:
      nodes_[rank]->result.died = true;
      end(rank);
      for (std::size_t other = 0; other < nodes_.size(); ++other)
        if (other != rank) at(now_ + jittered(kLossTime / 2), [=, this] { feed(other, event::PeerLost{rank}); });
  }
}

void Simulation::feed(std::size_t rank, const SchedulerEvent& event) {
  pending_.emplace_back(rank, event);
  if (feeding_) return;
  feeding_ = true;
  while (!pending_.empty()) {
    const auto [at_rank, what] = std::move(pending_.front());
    pending_.pop_front();
    if (nodes_[at_rank]->result.died) continue;
    for (const Action& action : nodes_[at_rank]->scheduler.handle(what))
      std::visit([&, target = at_rank](const auto& one) { perform(target, one); }, action);
  }
  feeding_ = false;
}

void Simulation::perform(std::size_t rank, const action::Propose& action) {
  round_[rank] = proposal_from_bytes(to_bytes(action.proposal));
  if (!std::all_of(round_.begin(), round_.end(), [](const auto& proposal) { return proposal.has_value(); })) return;
  event::Agreed agreed{action.round, {}};
  std::size_t bytes = 0;
  for (std::optional<Proposal>& proposal : round_) {
    bytes += to_bytes(*proposal).size();
    agreed.proposals.push_back(*std::exchange(proposal, std::nullopt));
  }
  const auto shared = std::make_shared<const event::Agreed>(std::move(agreed));
  for (std::size_t other = 0; other < nodes_.size(); ++other)
    at(now_ + jittered(scenario_.control_latency), [=, this] {
      if (!is_alive(other)) return;
      nodes_[other]->result.ledger.control.push_back(
          {.sequence = shared->round, .op = CollectiveOp::agree, .bytes = bytes});
      feed(other, *shared);
    });
}

void Simulation::perform(std::size_t rank, const action::Reserve& action) {
  using Answer = ReserveVote::Answer;
  const std::size_t need = requests_.at(action.request.id).memory_bytes;
  const std::size_t limit = scenario_.memory_bytes[rank];
  std::size_t& held = nodes_[rank]->result.held_bytes;
  ReserveVote vote{.id = action.request.id};
  if (need > limit - held) {
    vote.answer = need > limit ? Answer::never : Answer::not_now;
    vote.failure = {
        ErrorCode::out_of_device_memory,
        fmt::format("activations need {} bytes, {} of {} are free on rank {}", need, limit - held, limit, rank)};
  } else {
    held += need;
  }
  // Answered before anything else that waits for this rank.
  pending_.emplace_front(rank, event::Reserved{std::move(vote)});
}

void Simulation::perform(std::size_t rank, const action::Release& action) {
  nodes_[rank]->result.held_bytes -= requests_.at(action.id).memory_bytes;
}

void Simulation::perform(std::size_t rank, const action::RunPass& action) {
  nodes_[rank]->loop.run_pass(action.plan);
  advance(rank);
}

void Simulation::perform(std::size_t rank, const action::Rest&) {
  nodes_[rank]->loop.rest();
  advance(rank);
}

void Simulation::perform(std::size_t rank, const action::Settle& action) {
  if (!nodes_[rank]->result.settled.emplace(action.id, action.failure).second)
    fault(fmt::format("rank {} settled request {} twice", rank, action.id));
}

void Simulation::perform(std::size_t rank, const action::AwaitReason&) {
  nodes_[rank]->lanes_stopped = true;
  at(now_ + kReasonGrace, [=, this] {
    if (is_alive(rank)) feed(rank, event::ReasonOverdue{});
  });
}

void Simulation::perform(std::size_t rank, const action::FailGroup& action) {
  nodes_[rank]->result.fault = action.fault;
  end(rank);
  if (action.fault.rank != rank) return;
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    if (other == rank) continue;
    // Peers may see their communicators break before they are told why.
    if (random_() % 2 == 0) at(now_ + kNoticeTime / 4, [=, this] { feed(other, event::PeerLost{rank}); });
    at(now_ + kNoticeTime / 2 + jittered(kNoticeTime / 4),
       [=, this, fault = action.fault] { feed(other, event::Faulted{fault}); });
  }
}

void Simulation::perform(std::size_t rank, const action::EndGroup&) {
  end(rank);
}

void Simulation::end(std::size_t rank) {
  nodes_[rank]->ended = true;
  nodes_[rank]->lanes_stopped = true;
  nodes_[rank]->result.ended_at = now_;
}

void Simulation::advance(std::size_t rank) {
  start(rank, LaneKind::copy);
  start(rank, LaneKind::collectives);
  start(rank, LaneKind::compute);
}

void Simulation::start(std::size_t rank, LaneKind kind) {
  Node& node = *nodes_[rank];
  Lane& lane = node.loop.lanes[static_cast<std::size_t>(kind)];
  if (node.lanes_stopped || lane.busy || lane.done == lane.items.size()) return;
  const LaneItem& item = lane.items[lane.done];
  for (const LanePoint& need : item.needs)
    if (node.loop.lanes[static_cast<std::size_t>(need.lane)].done < need.count) return;
  lane.busy = true;
  if (item.kind == LaneItem::Kind::collective) return meet(rank, item);
  at(now_ + item.duration, [=, this] { finish(rank, kind); });
}

void Simulation::meet(std::size_t rank, const LaneItem& item) {
  const CollectiveRecord& record = item.collective;
  const auto key = std::tuple(record.kind, record.first_rank, record.sequence);
  Meeting& meeting = meetings_[key];
  if (meeting.ranks.empty()) meeting.record = record;
  if (meeting.record != record)
    fault(fmt::format("ranks {} and {} enter different collectives: {} and {}", meeting.ranks[0], rank,
                      describe(meeting.record), describe(record)));
  meeting.ranks.push_back(rank);
  if (meeting.ranks.size() < nodes_[rank]->loop.group(record.kind).size()) return;
  for (const std::size_t member : meeting.ranks)
    at(now_ + item.duration, [=, this] { finish(member, LaneKind::collectives); });
  meetings_.erase(key);
}

void Simulation::finish(std::size_t rank, LaneKind kind) {
  Node& node = *nodes_[rank];
  if (node.lanes_stopped) return;
  Lane& lane = node.loop.lanes[static_cast<std::size_t>(kind)];
  const LaneItem item = lane.items[lane.done++];
  lane.busy = false;
  if (item.kind == LaneItem::Kind::compute) finish_compute(rank, item);
  if (item.kind == LaneItem::Kind::leave) leave_unit(rank, item);
  advance(rank);
}

void Simulation::finish_compute(std::size_t rank, const LaneItem& item) {
  Node& node = *nodes_[rank];
  node.compute += item.duration;
  ++node.result.visits[item.sample];
  if (node.result.held_bytes < requests_.at(item.sample).memory_bytes || node.result.settled.count(item.sample) == 1)
    fault(fmt::format("rank {} runs request {} without memory", rank, item.sample));
  const std::optional<SimulatedFailure>& failure = requests_.at(item.sample).failure;
  if (failure && failure->visit == item.visit && failure->rank_of_replica == rank % topology_.replica_size())
    feed(rank, event::SampleFailed{{item.sample, {ErrorCode::internal, "a planted bad value"}}});
}

void Simulation::leave_unit(std::size_t rank, const LaneItem& item) {
  Node& node = *nodes_[rank];
  node.loop.left_unit();
  if (item.unit == node.loop.closing_unit(item.units)) feed(rank, event::PassClosing{item.pass});
  if (item.unit + 1 < item.units || node.ended) return;
  node.result.pass_ends.push_back(now_);
  node.result.pass_computes.push_back(std::exchange(node.compute, nanoseconds{0}));
  feed(rank, event::PassFinished{item.pass});
}

/// Nothing moves any more. With a stuck device, that is when ranks that wait in a collective give up.
bool Simulation::fire_watchdog() {
  if (!scenario_.fault || scenario_.fault->kind != SimulatedFault::Kind::stuck || !result_.fault_at) return false;
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    if (!is_alive(rank)) continue;
    at(now_ + kWatchdogTime, [=, this] {
      feed(rank, event::Faulted{{rank, {ErrorCode::device, "a collective is stuck"}}});
    });
    return true;
  }
  return false;
}

void Simulation::check_end() {
  std::string waiting;
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    if (!is_alive(rank)) continue;
    const Lane& lane = nodes_[rank]->loop.lanes[static_cast<std::size_t>(LaneKind::collectives)];
    waiting += fmt::format("; rank {} {}", rank,
                           lane.busy ? "in " + describe(lane.items[lane.done].collective) : "in the control plane");
  }
  if (!waiting.empty() && result_.faults.empty()) fault("deadlock" + waiting);
}

}  // namespace

SimulationResult simulate(const Scenario& scenario) {
  return Simulation(scenario).run();
}

}  // namespace lamina::testing
