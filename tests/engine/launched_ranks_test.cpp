#include "engine/ranks/launched_ranks.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;

constexpr DeviceChoice kCpu{DeviceKind::cpu, 0};

LaunchedProcess process(std::size_t index, std::size_t count) {
  return {"mpirun", index, count, index};
}

TEST(PlaceRanks, AProcessByItselfHasAll) {
  const Topology topology({.data = 3});
  EXPECT_EQ(place_ranks(topology, std::nullopt, std::nullopt, kCpu).local, (LocalRanks{0, 3}));
  EXPECT_EQ(place_ranks(topology, std::nullopt, 3, kCpu).local, (LocalRanks{0, 3}));
  expect_error(ErrorCode::incompatible, {"--ranks-per-process 2", "all 3 ranks"},
               [&] { place_ranks(topology, std::nullopt, 2, kCpu); });
}

TEST(PlaceRanks, ProcessesShareThemEvenly) {
  const Topology topology({.data = 2, .sequence = 2});
  EXPECT_EQ(place_ranks(topology, process(0, 1), std::nullopt, kCpu).local, (LocalRanks{0, 4}));
  EXPECT_EQ(place_ranks(topology, process(1, 2), std::nullopt, kCpu).local, (LocalRanks{2, 2}));
  EXPECT_EQ(place_ranks(topology, process(3, 4), 1, kCpu).local, (LocalRanks{3, 1}));
}

TEST(PlaceRanks, WhatCannotBeSharedIsRefused) {
  const Topology topology({.data = 2, .sequence = 2});
  expect_error(ErrorCode::incompatible, {"mpirun started 3 ranks", "--data-parallel-size 2", "takes 4"},
               [&] { place_ranks(topology, process(0, 3), std::nullopt, kCpu); });
  expect_error(ErrorCode::incompatible, {"mpirun started 8 ranks", "takes 4"},
               [&] { place_ranks(topology, process(0, 8), std::nullopt, kCpu); });
  expect_error(ErrorCode::incompatible, {"mpirun started 4 ranks", "takes 2"},
               [&] { place_ranks(Topology({.data = 2}), process(0, 2), 2, kCpu); });
}

}  // namespace
}  // namespace lamina::test
