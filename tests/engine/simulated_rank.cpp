#include "engine/simulated_rank.h"

#include <algorithm>

#include "offload/timing_model.h"

namespace lamina::testing {
namespace {

std::uint64_t tag_of(std::uint64_t pass, std::size_t unit, RequestId sample) {
  return (pass << 32) | (std::uint64_t{unit} << 24) | sample;
}

}  // namespace

SimulatedRank::SimulatedRank(const SimulatedWorld& world, std::size_t rank, std::uint64_t seed)
    : world_(world), replica_(world.topology.replica_of(rank)), random_(seed) {
  for (const GroupKind kind : {GroupKind::data, GroupKind::sequence, GroupKind::tensor, GroupKind::shard})
    groups_.emplace(kind, world.topology.group(kind, rank));
}

std::size_t SimulatedRank::waiting_unit(std::size_t units) const {
  return units + 1 > world_.slots ? std::max<std::size_t>(1, units + 1 - world_.slots) : 1;
}

std::size_t SimulatedRank::closing_unit(std::size_t units) const {
  const std::size_t waiting = waiting_unit(units);
  return waiting > 2 ? waiting - 2 : 0;
}

void SimulatedRank::run_pass(PassPlan plan) {
  passes_.push_back(std::move(plan));
  enqueue();
}

void SimulatedRank::rest() {
  rests_behind_ = passes_.size();
  enqueue();
}

void SimulatedRank::left_unit() {
  ++visits_done_;
  enqueue();
}

void SimulatedRank::enqueue() {
  while (pass_ < passes_.size() && left_.size() < visits_done_ + kVisitsAhead) {
    const bool may_run_ahead = unit_ >= waiting_unit(units_of(pass_));
    const bool next_known = pass_ + 1 < passes_.size();
    if (may_run_ahead && !next_known && rests_behind_ != pass_ + 1) return;
    fetch_up_to(left_.size() + world_.slots, may_run_ahead && next_known ? pass_ + 1 : pass_);
    visit(passes_[pass_], unit_);
    if (++unit_ < units_of(pass_)) continue;
    ++pass_;
    unit_ = 0;
  }
}

void SimulatedRank::fetch_up_to(std::size_t visit, std::size_t last_pass) {
  while (ready_.size() < visit && fetch_pass_ <= last_pass) {
    fetch();
    if (++fetch_unit_ < units_of(fetch_pass_)) continue;
    ++fetch_pass_;
    fetch_unit_ = 0;
  }
}

void SimulatedRank::fetch() {
  const PassPlan& plan = passes_[fetch_pass_];
  const std::size_t bytes = world_.stacks[plan.stack].unit_bytes[fetch_unit_];
  const std::size_t sharers = world_.gathers ? group(*world_.gathers).size() : 1;
  LaneItem copy{.kind = LaneItem::Kind::copy,
                .duration = transfer_time((bytes + sharers - 1) / sharers, world_.link_bytes_per_second)};
  if (ready_.size() >= world_.slots) copy.needs[0] = left_[ready_.size() - world_.slots];
  const LanePoint copied = push(LaneKind::copy, copy);
  ready_.push_back(world_.gathers
                       ? enter(*world_.gathers, CollectiveOp::all_gather, bytes, tag_of(plan.number, fetch_unit_, 0),
                               transfer_time(bytes, world_.gather_bytes_per_second), copied)
                       : copied);
}

void SimulatedRank::visit(const PassPlan& plan, std::size_t unit) {
  const LanePoint ready = ready_[left_.size()];
  LanePoint shared = ready;
  for (const Seat& seat : plan.replicas[replica_]) {
    compute(seat, plan, unit, shared);
    shared = model_collectives(seat, plan, unit);
  }
  left_.push_back(push(LaneKind::compute, {.kind = LaneItem::Kind::leave,
                                           .needs = {ready, shared},
                                           .pass = plan.number,
                                           .unit = unit,
                                           .units = world_.stacks[plan.stack].unit_bytes.size()}));
}

void SimulatedRank::compute(const Seat& seat, const PassPlan& plan, std::size_t unit, LanePoint ready) {
  const std::vector<Leg>& legs = world_.requests.at(seat.id).request.legs;
  const auto units = [&](const Leg& leg) { return world_.stacks[leg.stack].unit_bytes.size(); };
  std::size_t visit = seat.pass_of_leg * units(legs[seat.leg]) + unit;
  for (std::size_t leg = 0; leg < seat.leg; ++leg) visit += legs[leg].passes * units(legs[leg]);
  const double share = double(random_() >> 11) * 0x1p-53;
  const double slowness = 1 + world_.jitter * share;
  const double unit_time = double(legs[seat.leg].pass_time.count()) / double(units(legs[seat.leg]));
  push(LaneKind::compute, {.kind = LaneItem::Kind::compute,
                           .duration = nanoseconds(static_cast<std::int64_t>(unit_time * slowness)),
                           .needs = {ready, {}},
                           .pass = plan.number,
                           .unit = unit,
                           .sample = seat.id,
                           .visit = visit});
}

LanePoint SimulatedRank::model_collectives(const Seat& seat, const PassPlan& plan, std::size_t unit) {
  LanePoint last{LaneKind::compute, lane(LaneKind::compute).items.size()};
  const std::size_t bytes = world_.requests.at(seat.id).collective_bytes;
  const std::uint64_t tag = tag_of(plan.number, unit, seat.id);
  const nanoseconds duration = transfer_time(bytes, world_.gather_bytes_per_second);
  if (world_.topology.sizes().sequence > 1)
    last = enter(GroupKind::sequence, CollectiveOp::all_to_all, bytes, tag, duration, last);
  if (world_.topology.sizes().tensor > 1)
    last = enter(GroupKind::tensor, CollectiveOp::all_reduce, bytes, tag, duration, last);
  return last;
}

LanePoint SimulatedRank::push(LaneKind kind, LaneItem item) {
  lane(kind).items.push_back(std::move(item));
  return {kind, lane(kind).items.size()};
}

LanePoint SimulatedRank::enter(GroupKind kind, CollectiveOp op, std::size_t bytes, std::uint64_t tag,
                               nanoseconds duration, LanePoint need) {
  LaneItem item{.kind = LaneItem::Kind::collective, .duration = duration, .needs = {need, {}}};
  item.collective = {.kind = kind, .first_rank = group(kind).ranks[0], .op = op, .bytes = bytes, .tag = tag};
  if (swap_at_ == entered_++) {
    held_back_ = item;
    return {LaneKind::collectives, lane(LaneKind::collectives).items.size() + 2};
  }
  const LanePoint entered = push_collective(item);
  if (held_back_) push_collective(*std::exchange(held_back_, std::nullopt));
  return entered;
}

LanePoint SimulatedRank::push_collective(LaneItem item) {
  item.collective.sequence = sequences_[item.collective.kind]++;
  ledger.data.push_back(item.collective);
  return push(LaneKind::collectives, std::move(item));
}

}  // namespace lamina::testing
