#include "engine/ranks/pass_runner.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace lamina {
namespace {

/// What a device or the program fails with is no matter of one sample.
bool is_fault(const Error& error) {
  return error.code() == ErrorCode::device || error.code() == ErrorCode::internal;
}

}  // namespace

PassRunner::PassRunner(std::unique_ptr<Device> device, std::unique_ptr<Pipeline> pipeline,
                       const OffloadOptions& options, const std::optional<WeightSharing>& sharing)
    : device_(std::move(device)),
      pipeline_(std::move(pipeline)),
      compute_(device_->create_stream("compute")),
      copy_(device_->create_stream("copy")),
      host_(*device_, *compute_, *copy_, pipeline_->parts(), options, sharing),
      stages_runner_(*device_, *compute_, host_, pipeline_->parts()),
      pass_over_(device_->create_event("pass over")) {
  for (std::size_t part = 0; part < pipeline_->parts().size(); ++part) {
    const std::vector<Stack>& stacks = pipeline_->parts()[part].plan.stacks;
    for (std::size_t stack = 0; stack < stacks.size(); ++stack)
      stacks_.push_back({part, stack, stacks[stack].units.size()});
    if (stacks.empty()) stacks_.push_back({part, 0, 0});
  }
}

std::size_t PassRunner::stack_index(const Stage& stage) const {
  const auto place = std::ranges::find_if(
      stacks_, [&](const StackPlace& one) { return one.part == stage.part() && one.stack == stage.stack(); });
  expects(place != stacks_.end(), "stage '{}' uses a stack that its part lacks", stage.name());
  return static_cast<std::size_t>(place - stacks_.begin());
}

std::vector<PreparedRequest> PassRunner::prepare(const std::vector<GenerateRequest>& requests, std::size_t samples) {
  expects(samples_.empty(), "{} samples hold memory while others are prepared", samples_.size());
  requests_ = requests;
  refusals_.clear();
  most_ = {};
  std::vector<PreparedRequest> prepared;
  for (const GenerateRequest& request : requests) {
    try {
      prepared.push_back(prepare(request));
    } catch (const Error& error) {
      prepared.push_back({{}, error});
    }
  }
  for (const PreparedRequest& request : prepared) refusals_.push_back(request.refusal);
  take_memory(std::min(samples, requests.size()));
  return prepared;
}

PreparedRequest PassRunner::prepare(const GenerateRequest& request) {
  const std::unique_ptr<Generation> generation = pipeline_->start(request);
  PreparedRequest prepared;
  StageNeed most = most_;
  for (Stage* stage : generation->stages()) {
    const StageNeed need = stages_runner_.measure(*stage);
    stages_runner_.check_fits(need);
    most.activation_bytes = std::max(most.activation_bytes, need.activation_bytes);
    most.workspace_bytes = std::max(most.workspace_bytes, need.workspace_bytes);
    most.kept_bytes = std::max(most.kept_bytes, need.kept_bytes + need.part.total_bytes());
    // Time that passes take grows with the activations they go through: a measure for comparing requests.
    prepared.legs.push_back({.stack = stack_index(*stage),
                             .passes = std::max<std::size_t>(1, stage->passes()),
                             .pass_time = std::chrono::nanoseconds(need.activation_bytes)});
  }
  most_ = most;
  return prepared;
}

void PassRunner::take_memory(std::size_t samples) {
  activations_ = {};
  workspace_ = {};
  slot_used_.clear();
  slot_bytes_ = align_up(most_.activation_bytes, Arena::kAlignment);
  if (slot_bytes_ == 0 || samples == 0) return;
  std::size_t slots = samples;
  if (const auto limit = device_->memory().use().limit_bytes) {
    const std::size_t weights = most_.kept_bytes + most_.workspace_bytes;
    const std::size_t room = *limit > weights ? (*limit - weights) / slot_bytes_ : 0;
    slots = std::clamp<std::size_t>(room, 1, samples);
  }
  activations_ = device_->allocate(slots * slot_bytes_, "activations");
  workspace_ = device_->allocate(most_.workspace_bytes, "workspace");
  slot_used_.assign(slots, false);
}

ReserveVote PassRunner::reserve(RequestId id, std::size_t request) {
  if (const std::optional<Error>& refusal = refusals_.at(request))  // the leader's device may have room for it
    return {id, ReserveVote::Answer::never, {refusal->code(), refusal->message()}};
  const auto slot = std::ranges::find(slot_used_, false);
  if (slot == slot_used_.end())
    return {id,
            ReserveVote::Answer::not_now,
            {ErrorCode::out_of_device_memory,
             fmt::format("all {} samples of {} are in use", slot_used_.size(), format_size(slot_bytes_))}};
  try {
    std::unique_ptr<Generation> generation = pipeline_->start(requests_.at(request));
    samples_[id] = {.generation = std::move(generation), .slot = static_cast<std::size_t>(slot - slot_used_.begin())};
  } catch (const Error& error) {  // it was prepared, but a file of it has changed since
    if (is_fault(error)) throw;
    return {id, ReserveVote::Answer::never, {error.code(), error.message()}};
  }
  *slot = true;
  return {id, ReserveVote::Answer::held, {}};
}

void PassRunner::release(RequestId id) {
  const auto sample = samples_.find(id);
  expects(sample != samples_.end(), "request {} holds no memory", id);
  slot_used_[sample->second.slot] = false;
  samples_.erase(sample);
}

void PassRunner::run(const PassPlan& plan, std::span<const Seat> seats,
                     const std::function<std::optional<std::size_t>()>& close) {
  const StackPlace& place = stacks_.at(plan.stack);
  activate(place.part);
  ops::OpContext context(*compute_, workspace_.data(), workspace_.size_bytes());
  for (const Seat& seat : seats)
    if (seat.pass_of_leg == 0) begin_leg(seat);
  if (place.units > 0)
    run_units(place, seats, context, close);
  else
    close();
  for (const Seat& seat : seats)
    if (ends_leg(seat)) end_leg(seat, context);
  compute_->record(*pass_over_);
  ++totals_.passes;
}

/// Comes and goes on all ranks of the group at once, since the passes say when.
void PassRunner::activate(std::size_t part) {
  if (active_part_ == part) return;
  if (active_part_) {
    count_statistics();
    active_part_.reset();
    host_.release();
  }
  host_.activate(part);
  active_part_ = part;
}

void PassRunner::run_units(const StackPlace& place, std::span<const Seat> seats, ops::OpContext& context,
                           const std::function<std::optional<std::size_t>()>& close) {
  BlockStream& stream = host_.active(place.part).stream();
  std::vector<PassMember*> members;
  for (const Seat& seat : seats)
    for (PassMember* member : stage_of(seat).members()) members.push_back(member);
  bool closed = false;
  const auto close_when_due = [&] {
    if (closed || !stream.is_fetched()) return;
    closed = true;
    const std::optional<std::size_t> next = close();
    if (next && stacks_.at(*next).part == place.part && stacks_[*next].units > 0)
      stream.announce_next(stacks_[*next].stack);
  };
  stream.begin_pass(place.stack);
  for (PassMember* member : members) member->begin(context);
  for (std::size_t unit = 0; unit < place.units; ++unit) {
    close_when_due();
    UnitLease lease = stream.enter(unit);
    for (PassMember* member : members) member->run_unit(unit, context);
    lease.leave();
  }
  expects(closed, "a pass over {} units ended before all of them were fetched", place.units);
  for (PassMember* member : members) member->finish(context);
  stream.end_pass();
}

/// Does what may fail for the sample's values; nothing, where it has failed.
void PassRunner::attempt(RequestId id, const std::function<void()>& work) {
  Sample& sample = samples_.at(id);
  if (sample.failed) return;
  try {
    work();
  } catch (const Error& error) {
    if (is_fault(error)) throw;
    sample.failed = true;
    failures_.push_back({id, {error.code(), error.message()}});
  }
}

Stage& PassRunner::stage_of(const Seat& seat) {
  return *samples_.at(seat.id).generation->stages().at(seat.leg);
}

bool PassRunner::ends_leg(const Seat& seat) {
  return seat.pass_of_leg + 1 >= std::max<std::size_t>(1, stage_of(seat).passes());
}

void PassRunner::begin_leg(const Seat& seat) {
  Sample& sample = samples_.at(seat.id);
  sample.arena.emplace(activations_.data() + sample.slot * slot_bytes_, slot_bytes_);
  Stage& stage = stage_of(seat);
  stage.lay_out(*sample.arena);
  attempt(seat.id, [&] { stage.upload(stages_runner_.uploader()); });
}

void PassRunner::end_leg(const Seat& seat, ops::OpContext& context) {
  Stage& stage = stage_of(seat);
  count_statistics();  // throws where weights did not come
  stage.run_outside(context);
  attempt(seat.id, [&] { stage.download(*compute_); });
  compute_->synchronize();
  attempt(seat.id, [&] { stage.collect(); });
}

void PassRunner::wait_for_pass() {
  pass_over_->synchronize();
  totals_.pass_ends.push_back(pass_over_->time());
}

std::optional<GenerateResult> PassRunner::result(RequestId id) {
  std::optional<GenerateResult> result;
  attempt(id, [&] {
    Generation& generation = *samples_.at(id).generation;
    result = generation.result();
    result->notes = generation.notes();
  });
  return result;
}

void PassRunner::count_statistics() {
  const StreamStatistics statistics = host_.active(*active_part_).stream().take_statistics();
  totals_.copied_bytes += statistics.copied_bytes;
  totals_.gathered_bytes += statistics.gathered_bytes;
  totals_.stall += statistics.stall;
}

RankTotals PassRunner::take_totals() {
  if (active_part_) count_statistics();
  totals_.host_bytes = host_.host_bytes();
  totals_.device_peak_bytes = device_->memory().use().peak_bytes;
  device_->memory().reset_peak();
  return std::exchange(totals_, {});
}

}  // namespace lamina
