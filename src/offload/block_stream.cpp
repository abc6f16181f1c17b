#include "offload/block_stream.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "offload/drain.h"

namespace lamina {
namespace {

constexpr std::byte kPoison{0xFF};  // NaN in f32, bf16 and e4m3

}  // namespace

UnitLease::UnitLease(UnitLease&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

UnitLease::~UnitLease() {
  if (stream_ == nullptr) return;
  try {
    stream_->release_lease();
  } catch (const std::exception& error) {
    spdlog::error("a unit's lease could not be released: {}", error.what());
  }
}

void UnitLease::leave() {
  expects(stream_ != nullptr, "a lease was left twice");
  std::exchange(stream_, nullptr)->leave_lease();
}

BlockStream::BlockStream(Device& device, Stream& compute, Stream& copy, UnitSource* source,
                         std::vector<std::vector<UnitBinding>> stacks, const BlockStreamOptions& options)
    : compute_(compute),
      copy_(copy),
      source_(source),
      completion_(source != nullptr ? source->completion() : nullptr),
      stacks_(std::move(stacks)),
      options_(options),
      events_(device) {
  if (options.ring_bytes > 0) ring_.emplace(device, options.ring_bytes);
  for (const std::vector<UnitBinding>& stack : stacks_)
    for (const UnitBinding& unit : stack)
      expects(unit.resident_data != nullptr || (source != nullptr && unit.image_bytes <= options.ring_bytes),
              "a unit of {} bytes cannot stream through a ring of {} from {}", unit.image_bytes, options.ring_bytes,
              source != nullptr ? "its source" : "no source");
  reset_statistics();
}

BlockStream::~BlockStream() {
  drain(copy_, "its block stream was closed");
  if (completion_ != nullptr)
    for (Stream* stream : completion_->streams) drain(*stream, "its block stream was closed");
  drain(compute_, "its block stream was closed");
}

void BlockStream::begin_pass(std::size_t stack) {
  expects(!running_stack_ && stack < stacks_.size(), "pass over stack {} begun while another runs, or there is none",
          stack);
  if (pass_ > 0) harvest(pass_);
  ++pass_;
  ++statistics_.passes;
  running_stack_ = stack;
  next_unit_ = 0;
  const auto announced = std::exchange(announced_stack_, std::nullopt);
  if (announced != stack) {
    expects(!gathers() || !announced, "stack {} begun, and gathered is that of another", stack);
    discard_fetched();
    queue_fetches({pass_, {stack, 0}});
  }
  prefetch();
}

void BlockStream::announce_next(std::size_t stack) {
  expects(running_stack_ && !announced_stack_ && stack < stacks_.size(), "stack {} announced out of turn", stack);
  announced_stack_ = stack;
  queue_fetches({pass_ + 1, {stack, 0}});
  prefetch();
}

UnitLease BlockStream::enter(std::size_t unit) {
  expects(running_stack_ && !leased_ && unit < stacks_[*running_stack_].size(), "unit {} entered out of turn", unit);
  const PassUnit visit{pass_, {*running_stack_, unit}};
  const UnitBinding& target = binding(visit.ref);
  expects(!gathers() || target.resident_data != nullptr || unit >= next_unit_,
          "unit {} entered behind unit {}: units are gathered in order", unit, next_unit_);
  count_order(unit);
  const std::byte* data = target.resident_data;
  if (data == nullptr) {
    Fetched& fetched = claim(visit);
    data = fetched.data;
    visits_.push_back({visit, fetched.copy_begin, fetched.copy_end, fetched.ready, events_.take("wait begin"),
                       events_.take("wait end"), events_.take("free"), std::move(fetched.pieces)});
    compute_.record(*visits_.back().wait_begin);
    compute_.wait(*fetched.ready);
    compute_.record(*visits_.back().wait_end);
  } else {
    visits_.push_back({visit, nullptr, nullptr, nullptr, nullptr, events_.take("wait end"), events_.take("free"), {}});
    compute_.record(*visits_.back().wait_end);
  }
  for (std::size_t i = 0; i < target.parameters.size(); ++i) target.parameters[i]->bind(data + target.offsets[i]);
  leased_ = visit;
  UnitLease lease(*this);
  prefetch();
  return lease;
}

void BlockStream::end_pass() {
  expects(running_stack_ && !leased_, "a pass ended while none runs or a unit is leased");
  statistics_.skipped_visits += stacks_[*running_stack_].size() - next_unit_;
  running_stack_.reset();
  discard_rest_of_pass();
}

/// What was not entered. Where units are gathered, the other ranks may have entered it: it is fetched all the same.
void BlockStream::discard_rest_of_pass() {
  while (!to_fetch_.empty() && to_fetch_.front().pass == pass_) {
    if (!gathers()) {
      to_fetch_.pop_front();
      continue;
    }
    if (!fetched_.empty()) discard_oldest();
    prefetch();
  }
  while (!fetched_.empty() && fetched_.front().unit.pass == pass_) discard_oldest();
  if (gathers()) prefetch();
}

void BlockStream::abandon_pass() {
  expects(!leased_, "a pass was abandoned with a unit leased");
  discard_fetched();
  visits_.clear();
  timeline_.clear();
  running_stack_.reset();
  announced_stack_.reset();
  reset_statistics();
}

StreamStatistics BlockStream::take_statistics() {
  expects(!running_stack_, "statistics taken while a pass is running");
  // A failed copy is an error of its stream alone: compute went on with what the ring held.
  copy_.synchronize();
  if (completion_ != nullptr)
    for (Stream* stream : completion_->streams) stream->synchronize();
  compute_.synchronize();
  harvest(std::numeric_limits<std::size_t>::max());
  StreamStatistics taken = std::move(statistics_);
  reset_statistics();
  return taken;
}

std::vector<VisitTiming> BlockStream::take_timeline() {
  harvest(std::numeric_limits<std::size_t>::max());
  return std::exchange(timeline_, {});
}

void BlockStream::reset_statistics() {
  passes_before_ = pass_;
  statistics_ = {};
  for (const std::vector<UnitBinding>& stack : stacks_) statistics_.units.emplace_back(stack.size());
}

void BlockStream::queue_fetches(PassUnit first) {
  const std::vector<UnitBinding>& stack = stacks_[first.ref.stack];
  for (std::size_t unit = first.ref.unit; unit < stack.size(); ++unit)
    if (stack[unit].resident_data == nullptr) to_fetch_.push_back({first.pass, {first.ref.stack, unit}});
}

void BlockStream::prefetch() {
  while (!to_fetch_.empty() && try_fetch(to_fetch_.front())) to_fetch_.pop_front();
}

bool BlockStream::try_fetch(const PassUnit& unit) {
  Fetched fetched{unit, nullptr, events_.take("copy begin"), nullptr, events_.take("ready"), {}};
  fetched.copy_end = completion_ != nullptr ? events_.take("copy end") : fetched.ready;
  std::byte* place = ring_->push(binding(unit.ref).image_bytes, copy_);
  if (place == nullptr) return false;
  try {
    fetch(fetched, place);
  } catch (...) {
    ring_->drop_newest();
    throw;
  }
  count_fetch(unit.ref);
  fetched_.push_back(std::move(fetched));
  return true;
}

void BlockStream::fetch(Fetched& fetched, std::byte* place) {
  fetched.data = place;
  copy_.record(*fetched.copy_begin);
  fetched.pieces = source_->fetch_async(fetched.unit.ref, place, copy_);
  copy_.record(*fetched.copy_end);
  if (completion_ != nullptr) completion_->last().record(*fetched.ready);
}

void BlockStream::count_fetch(UnitRef ref) {
  const std::size_t wire = binding(ref).wire_bytes;
  const std::size_t copied = gathers() ? wire / completion_->ranks : wire;
  const std::size_t gathered = gathers() ? wire : 0;
  UnitStatistics& unit = statistics_.units[ref.stack][ref.unit];
  ++unit.fetches;
  unit.copied_bytes += copied;
  unit.gathered_bytes += gathered;
  statistics_.copied_bytes += copied;
  statistics_.gathered_bytes += gathered;
}

/// Nothing read its bytes, but its fetch may still be writing them.
void BlockStream::discard_oldest() {
  ring_->retire_oldest(std::move(fetched_.front().ready));
  fetched_.pop_front();
  ++statistics_.discarded_fetches;
}

void BlockStream::discard_fetched() {
  while (!fetched_.empty()) discard_oldest();
  to_fetch_.clear();
}

/// The unit at the front of the ring: units fetched for visits that did not come are dropped; what is not in the ring
/// is fetched now, and prefetching starts again behind it.
BlockStream::Fetched& BlockStream::claim(const PassUnit& unit) {
  if (gathers()) return claim_in_order(unit);
  const auto found = std::ranges::find(fetched_, unit, &Fetched::unit);
  if (found != fetched_.end()) {
    for (auto skipped = std::distance(fetched_.begin(), found); skipped > 0; --skipped) discard_oldest();
    return fetched_.front();
  }
  discard_fetched();
  const bool fits = try_fetch(unit);
  expects(fits, "an empty ring of {} bytes has no room for unit {}", ring_->capacity_bytes(), unit.ref.unit);
  ++statistics_.demand_fetches;
  queue_fetches({unit.pass, {unit.ref.stack, unit.ref.unit + 1}});
  if (announced_stack_) queue_fetches({unit.pass + 1, {*announced_stack_, 0}});
  return fetched_.front();
}

/// The unit at the front of the ring, behind the fetches of all units before it.
BlockStream::Fetched& BlockStream::claim_in_order(const PassUnit& unit) {
  while (fetched_.empty() || fetched_.front().unit != unit) {
    expects(!fetched_.empty(), "unit {} of stack {} is not among those to be gathered", unit.ref.unit, unit.ref.stack);
    discard_oldest();
    prefetch();
  }
  return fetched_.front();
}

void BlockStream::count_order(std::size_t unit) {
  ++statistics_.units[*running_stack_][unit].visits;
  if (unit < next_unit_) {
    ++statistics_.repeated_visits;
    return;
  }
  statistics_.skipped_visits += unit - next_unit_;
  next_unit_ = unit + 1;
}

void BlockStream::release_lease() {
  const PassUnit unit = *std::exchange(leased_, std::nullopt);
  const UnitBinding& target = binding(unit.ref);
  for (Parameter* parameter : target.parameters) parameter->unbind();
  const Fetched* fetched = target.resident_data == nullptr ? &fetched_.front() : nullptr;
  if (fetched != nullptr && options_.poison_released)
    compute_.fill_async(const_cast<std::byte*>(fetched->data), target.image_bytes, kPoison, "poison");
  const std::shared_ptr<Event>& free = visits_.back().free;
  compute_.record(*free);
  if (fetched == nullptr) return;
  ring_->retire_oldest(free);
  fetched_.pop_front();
}

void BlockStream::leave_lease() {
  release_lease();
  prefetch();
}

/// Reads the times of visits of passes before `before_pass`, waiting for them.
void BlockStream::harvest(std::size_t before_pass) {
  for (; !visits_.empty() && visits_.front().unit.pass < before_pass && !leased_; visits_.pop_front()) {
    const Visit& visit = visits_.front();
    visit.free->synchronize();
    if (completion_ != nullptr && visit.ready) visit.copy_end->synchronize();  // compute waited for `ready` alone
    if (visit.ready) source_->check();
    const UnitRef ref = visit.unit.ref;
    VisitTiming timing{.pass = visit.unit.pass - 1 - passes_before_, .unit = ref.unit};
    timing.compute_begin = visit.wait_end->time();
    timing.compute_end = visit.free->time();
    UnitStatistics& unit = statistics_.units[ref.stack][ref.unit];
    unit.compute += timing.compute_end - timing.compute_begin;
    if (visit.ready) {
      timing.copy_begin = visit.copy_begin->time();
      timing.copy_end = visit.copy_end->time();
      timing.ready = visit.ready->time();
      timing.stall = timing.compute_begin - visit.wait_begin->time();
      unit.copy += timing.copy_end - timing.copy_begin;
      unit.stall += timing.stall;
      statistics_.stall += timing.stall;
      add_packing(visit, unit);
    }
    if (options_.record_timeline) timeline_.push_back(timing);
  }
}

/// What the host's packing cost, and how much of the visit's stall went by while the copy stream waited for it.
void BlockStream::add_packing(const Visit& visit, UnitStatistics& unit) {
  for (const PackedPiece& piece : visit.pieces) {
    unit.packing += piece.packed->time() - piece.pack_begin->time();
    const auto begin = std::max(visit.wait_begin->time(), piece.wait_begin->time());
    const auto end = std::min(visit.wait_end->time(), piece.packed->time());
    unit.packing_stall += std::max(end - begin, std::chrono::nanoseconds(0));
  }
}

}  // namespace lamina
