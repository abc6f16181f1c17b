#pragma once

#include <cstdint>

#include "engine/scheduler_simulator.h"

namespace lamina::testing {

/// A scenario without faults, drawn from a seed: up to 16 ranks, up to three samples a replica, one to twelve requests
/// of one to eight steps that differ in size and time of arrival. A tenth of the requests is cancelled, a twentieth
/// meets a bad value, a few never fit.
Scenario random_scenario(std::uint64_t seed);

/// The same with a fault of a random kind, on a random rank, before one of `events` events.
Scenario with_random_fault(Scenario scenario, std::size_t events, std::uint64_t seed);

}  // namespace lamina::testing
