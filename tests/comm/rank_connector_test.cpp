#include "comm/rank_connector.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/expect_error.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;

TEST(ThreadConnector, HasAllRanksOfItsWorld) {
  const auto connector = connect_threads(5, std::nullopt);
  EXPECT_EQ(connector->world_size(), 5U);
  EXPECT_EQ(connector->local_ranks(), (LocalRanks{0, 5}));
  EXPECT_TRUE(connector->local_ranks().contains(4));
  EXPECT_FALSE(connector->local_ranks().contains(5));
}

TEST(ThreadConnector, GivesAnEndToEachRankOfAGroup) {
  const auto connector = connect_threads(5, std::nullopt);
  const std::vector<std::size_t> ranks{1, 3, 4};
  const auto devices = connector->connect_devices("tensor", ranks);
  ASSERT_EQ(devices.size(), 3U);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(devices[i]->name(), "tensor");
    EXPECT_EQ(devices[i]->rank(), i);
    EXPECT_EQ(devices[i]->size(), 3U);
  }

  auto hosts = connector->connect_hosts("rounds", ranks);
  ASSERT_EQ(hosts.size(), 3U);
  std::vector<std::vector<std::vector<std::byte>>> received(hosts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    threads.emplace_back([&, i] { received[i] = hosts[i]->all_gather({std::byte(i)}); });
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::vector<std::byte>> all{{std::byte(0)}, {std::byte(1)}, {std::byte(2)}};
  for (const auto& mine : received) EXPECT_EQ(mine, all);
}

TEST(ThreadConnector, RefusesRanksOutsideItsWorldOrOutOfOrder) {
  const auto connector = connect_threads(2, std::nullopt);
  for (const std::vector<std::size_t>& ranks : {std::vector<std::size_t>{}, {0, 2}, {1, 0}, {1, 1}}) {
    expect_error(ErrorCode::internal, {"group 'tensor'", "world of 2"},
                 [&] { connector->connect_devices("tensor", ranks); });
    expect_error(ErrorCode::internal, {"group 'tensor'", "world of 2"},
                 [&] { connector->connect_hosts("tensor", ranks); });
  }
}

}  // namespace
}  // namespace lamina::test
