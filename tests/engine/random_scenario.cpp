#include "engine/random_scenario.h"

#include <random>

namespace lamina::testing {
namespace {

enum Stack : std::size_t { text_encoder, transformer, decoder };

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15ull + 1) {}

  /// From `least` to `most`, both included.
  std::size_t number(std::size_t least, std::size_t most) { return least + random_() % (most - least + 1); }
  nanoseconds time(std::size_t most_ns) { return nanoseconds(static_cast<std::int64_t>(number(0, most_ns))); }
  bool chance(std::size_t percent) { return number(1, 100) <= percent; }

 private:
  std::mt19937_64 random_;
};

ParallelSizes random_sizes(Dice& dice) {
  if (dice.chance(10)) return {.sequence = 2, .use_hsdp = true, .hsdp_shard = 2};
  if (dice.chance(10)) return {.use_hsdp = true, .hsdp_shard = dice.number(2, 3)};
  return {.data = dice.number(1, 4), .sequence = dice.chance(25) ? 2u : 1u, .tensor = dice.chance(25) ? 2u : 1u};
}

SimulatedStack random_stack(Dice& dice, std::size_t least_units, std::size_t most_units) {
  SimulatedStack stack;
  const std::size_t units = dice.number(least_units, most_units);
  for (std::size_t unit = 0; unit < units; ++unit) stack.unit_bytes.push_back(dice.number(1, 40) * 1'000'000);
  return stack;
}

SimulatedRequest random_request(Dice& dice, RequestId id, const Scenario& scenario) {
  SimulatedRequest request;
  const std::size_t steps = dice.number(1, 8);
  const nanoseconds step_time = nanoseconds(200'000) + dice.time(8'000'000);
  request.request = {
      .id = id,
      .legs = {{text_encoder, 1, step_time / 4}, {transformer, steps, step_time}, {decoder, 1, step_time}},
      .explicit_steps = steps};
  if (dice.chance(15)) request.request.legs.erase(request.request.legs.begin());
  request.memory_bytes = dice.chance(4) ? 1000 : dice.number(10, 100);
  request.collective_bytes = dice.number(1, 100) * 10'000;
  if (!dice.chance(5)) return request;
  std::size_t visits = 0;
  for (const Leg& leg : request.request.legs) visits += leg.passes * scenario.stacks[leg.stack].unit_bytes.size();
  request.failure = {.rank_of_replica = dice.number(0, Topology(scenario.sizes).replica_size() - 1),
                     .visit = dice.number(0, visits - 1)};
  return request;
}

}  // namespace

Scenario random_scenario(std::uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.sizes = random_sizes(dice);
  scenario.gathers_weights = scenario.sizes.data > 1 || dice.chance(70);
  scenario.samples_per_replica = dice.number(1, 3);
  scenario.wave_policy = dice.chance(20) ? WavePolicy::strict : WavePolicy::ragged;
  scenario.slots = dice.number(1, 3);
  scenario.jitter = 0.5;
  scenario.control_latency = nanoseconds(10'000) + dice.time(dice.chance(50) ? 100'000 : 5'000'000);
  scenario.stacks = {random_stack(dice, 1, 3), random_stack(dice, 2, 5), random_stack(dice, 1, 1)};
  const std::size_t ranks = Topology(scenario.sizes).world_size();
  for (std::size_t rank = 0; rank < ranks; ++rank) scenario.memory_bytes.push_back(dice.number(90, 200));

  const std::size_t requests = dice.number(1, 12);
  nanoseconds arrival{0};
  for (RequestId id = 1; id <= requests; ++id) {
    scenario.requests.push_back(random_request(dice, id, scenario));
    SimulatedRequest& request = scenario.requests.back();
    arrival += dice.chance(40) ? nanoseconds{0} : dice.time(30'000'000);
    request.arrival = arrival;
    if (dice.chance(10)) request.cancelled_at = arrival + dice.time(60'000'000);
  }
  return scenario;
}

Scenario with_random_fault(Scenario scenario, std::size_t events, std::uint64_t seed) {
  Dice dice(~seed);
  scenario.fault = SimulatedFault{.kind = static_cast<SimulatedFault::Kind>(dice.number(0, 2)),
                                  .rank = dice.number(0, Topology(scenario.sizes).world_size() - 1),
                                  .event = dice.number(0, events - 1)};
  return scenario;
}

}  // namespace lamina::testing
