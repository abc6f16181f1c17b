#include "comm/host_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "base/expect_error.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;

std::vector<std::byte> bytes_of(std::size_t rank, std::size_t round) {
  return std::vector<std::byte>((rank + 1) * round, std::byte(16 * rank + round));
}

std::vector<std::optional<Error>> run_ranks(
    std::size_t ranks, const std::function<void(std::size_t, std::unique_ptr<HostExchange>&)>& body) {
  std::vector<std::unique_ptr<HostExchange>> ends = create_local_exchange("rounds", ranks);
  std::vector<std::optional<Error>> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank, ends[rank]);
      } catch (const Error& error) {
        errors[rank] = error;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(HostExchange, GivesEveryRankWhatAllBroughtRoundByRound) {
  for (const std::size_t ranks : {1, 2, 4}) {
    const auto errors = run_ranks(ranks, [&](std::size_t rank, std::unique_ptr<HostExchange>& end) {
      for (std::size_t round = 0; round < 30; ++round) {
        const std::vector<std::vector<std::byte>> all = end->all_gather(bytes_of(rank, round % 7));
        ASSERT_EQ(all.size(), ranks);
        for (std::size_t other = 0; other < ranks; ++other) ASSERT_EQ(all[other], bytes_of(other, round % 7));
      }
    });
    EXPECT_THAT(errors, ::testing::Each(::testing::Eq(std::nullopt)));
  }
}

TEST(HostExchange, WaitsForALateRankAndEndsWithAReason) {
  const auto errors = run_ranks(3, [](std::size_t rank, std::unique_ptr<HostExchange>& end) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    end->all_gather({});
    if (rank == 2) end->abort(Error(ErrorCode::cancelled, "planted"));
    end->all_gather({});
  });
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error.has_value());
    expect_error(ErrorCode::cancelled, {"planted"}, [&] { throw *error; });
  }
}

TEST(HostExchange, ARankThatLeftEndsTheRound) {
  const auto errors = run_ranks(2, [](std::size_t rank, std::unique_ptr<HostExchange>& end) {
    if (rank == 1) return end.reset();
    end->all_gather({});
  });
  ASSERT_TRUE(errors[0].has_value());
  expect_error(ErrorCode::device, {"rank 1", "left"}, [&] { throw *errors[0]; });
}

}  // namespace
}  // namespace lamina::test
