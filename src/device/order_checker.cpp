#include "device/order_checker.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

void merge(OrderChecker::Clock& clock, const OrderChecker::Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  std::ranges::transform(other, clock, clock.begin(), [](auto a, auto b) { return std::max(a, b); });
}

bool has_seen(const OrderChecker::Clock& clock, OrderChecker::Lane lane, std::uint64_t time) {
  return lane < clock.size() && clock[lane] >= time;
}

}  // namespace

OrderChecker::OrderChecker() {
  add_lane("host");
}

OrderChecker::Lane OrderChecker::add_lane(std::string name) {
  const std::lock_guard lock(mutex_);
  auto lane = std::ranges::find(lanes_, false, &LaneState::in_use);
  if (lane == lanes_.end()) lane = lanes_.emplace(lanes_.end());
  const auto number = static_cast<Lane>(lane - lanes_.begin());
  lane->name = std::move(name);
  lane->in_use = true;
  if (lane->clock.size() <= number) lane->clock.resize(number + 1);
  return number;
}

void OrderChecker::remove_lane(Lane lane) {
  const std::lock_guard lock(mutex_);
  merge(lanes_[kHost].clock, lanes_[lane].clock);
  lanes_[lane].in_use = false;
}

void OrderChecker::watch(MemoryRange range, std::string name) {
  const std::lock_guard lock(mutex_);
  watched_.push_back({range.begin, range.size_bytes, std::move(name), {}});
}

void OrderChecker::unwatch(MemoryRange range) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(watched_, [&](const Watched& watched) {
    return watched.begin == range.begin && watched.size_bytes == range.size_bytes;
  });
  if (found != watched_.end()) watched_.erase(found);
}

void OrderChecker::access(Lane lane, const Access& access) {
  check(lane, access);
  note(lane, access);
}

void OrderChecker::check(Lane lane, const Access& access) {
  const std::lock_guard lock(mutex_);
  inherit_host(lane);
  for_each_watched_use(lane, access, [this](const Watched& watched, const Use& use) { check_use(watched, use); });
}

void OrderChecker::note(Lane lane, const Access& access) {
  const std::lock_guard lock(mutex_);
  inherit_host(lane);
  ++lanes_[lane].clock[lane];
  for_each_watched_use(lane, access, [](Watched& watched, Use use) { note_use(watched, std::move(use)); });
}

OrderChecker::Clock OrderChecker::record(Lane lane) {
  const std::lock_guard lock(mutex_);
  inherit_host(lane);
  return lanes_[lane].clock;
}

void OrderChecker::join(Lane lane, const Clock& clock) {
  const std::lock_guard lock(mutex_);
  merge(lanes_[lane].clock, clock);
}

std::uint64_t OrderChecker::proven_pairs() const {
  const std::lock_guard lock(mutex_);
  return proven_pairs_;
}

template <typename Visit>
void OrderChecker::for_each_watched_use(Lane lane, const Access& access, Visit visit) {
  const auto visit_ranges = [&](const std::vector<MemoryRange>& ranges, bool is_write) {
    for (const MemoryRange& range : ranges) {
      for (Watched& watched : watched_) {
        const std::byte* begin = std::max(range.begin, watched.begin);
        const std::byte* end = std::min(range.begin + range.size_bytes, watched.begin + watched.size_bytes);
        if (begin >= end) continue;
        visit(watched,
              Use{static_cast<std::size_t>(begin - watched.begin), static_cast<std::size_t>(end - watched.begin), lane,
                  lanes_[lane].clock[lane], is_write, std::string(access.name)});
      }
    }
  };
  visit_ranges(access.reads, false);
  visit_ranges(access.writes, true);
}

void OrderChecker::check_use(const Watched& watched, const Use& use) {
  for (const Use& earlier : watched.uses) {
    const bool conflict = (use.is_write || earlier.is_write) && earlier.lane != use.lane && earlier.overlaps(use);
    if (!conflict) continue;
    if (!has_seen(lanes_[use.lane].clock, earlier.lane, earlier.time)) {
      fail(ErrorCode::internal, "missing wait: '{}' on {} {} bytes [{}, {}) of {}, which '{}' on {} {}, unordered",
           use.name, lanes_[use.lane].name, use.is_write ? "writes" : "reads", std::max(use.begin, earlier.begin),
           std::min(use.end, earlier.end), watched.name, earlier.name, lanes_[earlier.lane].name,
           earlier.is_write ? "writes" : "reads");
    }
    ++proven_pairs_;
  }
}

/// Whoever comes after `use` comes after all that `use` itself was ordered after: bytes of such earlier uses need not
/// be kept.
void OrderChecker::note_use(Watched& watched, Use use) {
  std::vector<Use> uses;
  uses.reserve(watched.uses.size() + 2);
  for (Use& earlier : watched.uses) {
    const bool superseded = use.is_write || (!earlier.is_write && earlier.lane == use.lane);
    if (!superseded || !earlier.overlaps(use)) {
      uses.push_back(std::move(earlier));
      continue;
    }
    if (earlier.begin < use.begin) {
      uses.push_back(earlier);
      uses.back().end = use.begin;
    }
    if (earlier.end > use.end) {
      uses.push_back(std::move(earlier));
      uses.back().begin = use.end;
    }
  }
  uses.push_back(std::move(use));
  watched.uses = std::move(uses);
}

void OrderChecker::inherit_host(Lane lane) {
  expects(lane < lanes_.size(), "lane {} of {}", lane, lanes_.size());
  if (lane != kHost) merge(lanes_[lane].clock, lanes_[kHost].clock);
}

}  // namespace lamina
