// Rounds of the host between ranks in several processes, under mpirun.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "comm/process_ranks.h"

namespace lamina::test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::byte> bytes_of(std::size_t rank, std::size_t round) {
  return std::vector<std::byte>((rank + 1) * round, std::byte(16 * rank + round));
}

/// Runs `body` on a thread for each rank that a group has in this process.
template <typename Body>
void run_rounds(const std::vector<std::size_t>& ranks, Body body) {
  std::vector<std::unique_ptr<HostExchange>> ends = world().connect_hosts("rounds", ranks);
  std::size_t first = 0;
  while (first < ranks.size() && !world().local_ranks().contains(ranks[first])) ++first;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ends.size(); ++i) threads.emplace_back([&, i] { body(first + i, *ends[i]); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessRounds, GiveEveryRankWhatAllBroughtRoundByRound) {
  run_rounds(all_ranks(), [](std::size_t rank, HostExchange& end) {
    for (std::size_t round = 0; round < 30; ++round) {
      const std::vector<std::vector<std::byte>> all = end.all_gather(bytes_of(rank, round % 7));
      ASSERT_EQ(all.size(), world().world_size());
      for (std::size_t other = 0; other < all.size(); ++other) ASSERT_EQ(all[other], bytes_of(other, round % 7));
    }
  });
}

TEST(ProcessRounds, OfSomeRanks) {
  const std::vector<std::size_t> two{0, world().world_size() - 1};
  run_rounds(two, [](std::size_t rank, HostExchange& end) {
    const auto all = end.all_gather(bytes_of(rank, 3 * 70'000));
    ASSERT_EQ(all.size(), 2U);
    for (std::size_t other = 0; other < 2; ++other) EXPECT_EQ(all[other], bytes_of(other, 3 * 70'000));
  });
}

std::chrono::microseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST(ProcessRounds, WaitingTakesLittleProcessorTime) {
  run_rounds({0, world().world_size() - 1}, [](std::size_t rank, HostExchange& end) {
    end.all_gather({});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const auto before = processor_time();
    end.all_gather({});
    const auto spent = processor_time() - before;
    EXPECT_LT(rank == 0 ? spent : spent.zero(), std::chrono::milliseconds(250));
  });
}

TEST(ProcessRounds, PrintTheirLatency) {
  run_rounds({0, world().world_size() - 1}, [](std::size_t rank, HostExchange& end) {
    constexpr int kRounds = 200;
    const auto begin = Clock::now();
    for (int round = 0; round < kRounds; ++round) ASSERT_EQ(end.all_gather(bytes_of(rank, 40)).size(), 2U);
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    if (rank == 0) std::printf("a round of two processes takes %.0f us\n", time.count() / kRounds);
  });
}

}  // namespace
}  // namespace lamina::test
