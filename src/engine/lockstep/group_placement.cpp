// Which waiting request goes to which replica.

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "engine/lockstep/group_schedule.h"

namespace lamina {
namespace {

using std::chrono::nanoseconds;

/// Waiting requests among which the one is chosen that fits best beside those that run.
constexpr std::size_t kLookahead = 8;
/// A request is overtaken this often at most.
constexpr std::size_t kMostOvertakings = 8;

/// Predicted duration of the passes that a request spends most of its time in.
nanoseconds main_pass_time(const ScheduledRequest& request) {
  const auto leg = std::max_element(request.legs.begin(), request.legs.end(), [](const Leg& one, const Leg& other) {
    return one.pass_time * one.passes < other.pass_time * other.passes;
  });
  return leg->pass_time;
}

}  // namespace

void GroupSchedule::place(Decision& decision) {
  if (rules_.wave_policy == WavePolicy::strict) return place_wave(decision);
  while (Entry* entry = next_to_place()) {
    const std::optional<std::size_t> replica = replica_for(*entry);
    if (!replica) return;
    for (Entry& other : entries_)
      if (other.state == State::waiting && other.request.id < entry->request.id) ++other.overtaken;
    place_on(*entry, *replica, decision);
  }
}

void GroupSchedule::place_wave(Decision& decision) {
  const auto is_waiting = [](const Entry& entry) { return entry.state == State::waiting; };
  if (entries_.empty() || !std::all_of(entries_.begin(), entries_.end(), is_waiting)) return;
  const std::size_t size = std::min(entries_.size(), rules_.replicas * rules_.samples_per_replica);
  const std::size_t steps = *entries_.front().request.explicit_steps;
  for (std::size_t i = 0; i < size; ++i) {
    Entry& entry = entries_[i];
    if (*entry.request.explicit_steps != steps) {
      fail_entry(entry,
                 {ErrorCode::incompatible,
                  fmt::format("--dlo-wave-policy strict: the request takes {} steps, its wave {}; expected equal "
                              "ones; send it by itself, or use --dlo-wave-policy ragged",
                              *entry.request.explicit_steps, steps)});
    } else if (const std::optional<std::size_t> replica = replica_for(entry)) {
      place_on(entry, *replica, decision);
    }
  }
  settle(decision);
}

void GroupSchedule::place_on(Entry& entry, std::size_t replica, Decision& decision) {
  entry.alone = is_empty(replica);
  entry.state = State::reserving;
  entry.replica = replica;
  decision.placements.push_back({entry.request.id, replica});
}

GroupSchedule::Entry* GroupSchedule::next_to_place() {
  nanoseconds beside{0};
  for (const Entry& entry : entries_)
    if (entry.is_seated()) beside = std::max(beside, main_pass_time(entry.request));
  Entry* best = nullptr;
  nanoseconds best_distance{0};
  std::size_t seen = 0;
  for (Entry& entry : entries_) {
    if (entry.state != State::waiting) continue;
    const nanoseconds distance = std::chrono::abs(main_pass_time(entry.request) - beside);
    if (best == nullptr || distance < best_distance) {
      best = &entry;
      best_distance = distance;
    }
    const bool waits_for_memory = std::find(entry.full.begin(), entry.full.end(), true) != entry.full.end();
    if (waits_for_memory || entry.overtaken >= kMostOvertakings) return &entry;
    if (beside == nanoseconds{0} || ++seen == kLookahead) break;
  }
  return best;
}

std::optional<std::size_t> GroupSchedule::replica_for(const Entry& entry) const {
  // One sample more than may run may hold its memory; waves start with all of theirs.
  const std::size_t most_seats = rules_.samples_per_replica + (rules_.wave_policy == WavePolicy::ragged ? 1 : 0);
  std::optional<std::size_t> best;
  const auto rank = [&](std::size_t replica) { return std::tuple(time_until_free(replica), load(replica), replica); };
  for (std::size_t replica = 0; replica < rules_.replicas; ++replica) {
    if (entry.full[replica] || entry.impossible[replica] || seats(replica) >= most_seats) continue;
    if (!best || rank(replica) < rank(*best)) best = replica;
  }
  return best;
}

bool GroupSchedule::is_empty(std::size_t replica) const {
  return std::none_of(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.state != State::waiting && entry.replica == replica; });
}

std::size_t GroupSchedule::seats(std::size_t replica) const {
  return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.is_seated() && entry.replica == replica;
  }));
}

nanoseconds GroupSchedule::time_until_free(std::size_t replica) const {
  if (seats(replica) < rules_.samples_per_replica) return nanoseconds{0};
  nanoseconds earliest = nanoseconds::max();
  for (const Entry& entry : entries_) {
    if (!entry.is_seated() || entry.replica != replica) continue;
    nanoseconds remaining{0};
    for (std::size_t leg = entry.leg; leg < entry.request.legs.size(); ++leg) {
      const std::size_t done = leg == entry.leg ? entry.pass_of_leg : 0;
      remaining += entry.request.legs[leg].pass_time * (entry.request.legs[leg].passes - done);
    }
    earliest = std::min(earliest, remaining);
  }
  return earliest;
}

nanoseconds GroupSchedule::load(std::size_t replica) const {
  nanoseconds sum{0};
  for (const Entry& entry : entries_)
    if (entry.is_seated() && entry.replica == replica) sum += entry.current_leg().pass_time;
  return sum;
}

}  // namespace lamina
