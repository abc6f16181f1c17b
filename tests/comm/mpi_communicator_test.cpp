// Collectives of ranks in several processes, under mpirun.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "base/expect_error.h"
#include "comm/process_ranks.h"
#include "device/event.h"
#include "tensor/bf16.h"

namespace lamina::test {
namespace {

using ::testing::Each;
using ::testing::Eq;

constexpr std::size_t kPiece = 5;  // values

/// What rank `rank` puts into place `i`.
int value_of(std::size_t rank, std::size_t i) {
  return static_cast<int>(1000 * (rank + 1) + i);
}

std::vector<int> values_of(std::size_t rank, std::size_t count) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

void expect_gathered(LocalRank& mine, std::size_t piece) {
  const std::size_t ranks = mine.communicator->size();
  std::vector<int> values(ranks * piece, -1);
  for (std::size_t i = 0; i < piece; ++i) values[mine.rank * piece + i] = value_of(mine.rank, i);
  const DeviceBuffer buffer = upload(mine, values);
  mine.communicator->all_gather_async(buffer.data(), piece * sizeof(int), *mine.stream);
  std::vector<int> expected;
  for (std::size_t from = 0; from < ranks; ++from)
    for (std::size_t i = 0; i < piece; ++i) expected.push_back(value_of(from, i));
  EXPECT_TRUE(download<int>(mine, buffer) == expected) << "rank " << mine.rank;
}

TEST(ProcessGroup, GathersAPieceOfEveryRankInPlace) {
  EXPECT_THAT(run_world([](LocalRank& mine) { expect_gathered(mine, kPiece); }), Each(Eq(std::nullopt)));
}

TEST(ProcessGroup, GathersMoreThanOneMessageHolds) {
  const std::vector<std::size_t> two{0, world().world_size() - 1};
  const auto errors = run_group(world(), two, [](LocalRank& mine) { expect_gathered(mine, std::size_t{5} << 20); });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ProcessGroup, SendsAPieceToEveryRank) {
  const std::size_t ranks = world().world_size();
  const auto errors = run_world([&](LocalRank& mine) {
    const DeviceBuffer source = upload(mine, values_of(mine.rank, ranks * kPiece));
    const DeviceBuffer target = mine.device->allocate(source.size_bytes(), "test");
    mine.communicator->all_to_all_async(source.data(), target.data(), kPiece * sizeof(int), *mine.stream);
    const std::vector<int> received = download<int>(mine, target);
    for (std::size_t place = 0; place < ranks * kPiece; ++place)
      ASSERT_EQ(received[place], value_of(place / kPiece, mine.rank * kPiece + place % kPiece));
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ProcessGroup, BroadcastsFromAnyRank) {
  const auto errors = run_world([](LocalRank& mine) {
    for (std::size_t root = 0; root < world().world_size(); ++root) {
      const DeviceBuffer buffer = upload(mine, values_of(mine.rank, kPiece));
      mine.communicator->broadcast_async(buffer.data(), buffer.size_bytes(), root, *mine.stream);
      ASSERT_EQ(download<int>(mine, buffer), values_of(root, kPiece));
    }
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

struct Sums {
  std::vector<float> full;
  std::vector<std::uint16_t> half;
  bool operator==(const Sums&) const = default;
};

/// The sums of random numbers of very different sizes, so that their order shows.
Sums sum_of_random(LocalRank& mine) {
  std::mt19937 random(mine.rank);
  std::normal_distribution<float> exponent(0, 8);
  std::vector<float> values(3001);
  std::vector<std::uint16_t> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    halves[i] = narrow(values[i] = std::exp2(exponent(random)) * (random() % 2 == 0 ? 1.0F : -1.0F));
  const DeviceBuffer full = upload(mine, values);
  const DeviceBuffer half = upload(mine, halves);
  mine.communicator->all_reduce_async(TensorView(full.data(), DType::f32, {3001}), *mine.stream);
  mine.communicator->all_reduce_async(TensorView(half.data(), DType::bf16, {3001}), *mine.stream);
  return {download<float>(mine, full), download<std::uint16_t>(mine, half)};
}

TEST(ProcessGroup, SumsToTheBytesOfAGroupOfThreads) {
  std::vector<Sums> expected(world().world_size());
  run_ranks(expected.size(), [&](LocalRank& mine) { expected[mine.rank] = sum_of_random(mine); });
  const auto errors =
      run_world([&](LocalRank& mine) { EXPECT_EQ(sum_of_random(mine), expected[mine.rank]) << "rank " << mine.rank; });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ProcessGroup, SumsInTheOrderOfRanks) {
  // In f32 (1e8 + 1) - 1e8 is 0; in any other order of those three it is 1.
  const auto errors = run_world([](LocalRank& mine) {
    const std::size_t last = world().world_size() - 1;
    const float own = mine.rank == 0 ? 1e8F : mine.rank == last ? -1e8F : 1.0F;
    const DeviceBuffer buffer = upload(mine, std::vector<float>{own});
    mine.communicator->all_reduce_async(TensorView(buffer.data(), DType::f32, {1}), *mine.stream);
    EXPECT_EQ(download<float>(mine, buffer).front(), 0);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ProcessGroup, GroupsOfSomeRanksDoNotMeetEachOther) {
  const std::size_t ranks = world().world_size();
  const std::vector<std::size_t> even = ranks < 4 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, 2};
  const std::vector<std::size_t> odd = ranks < 4 ? std::vector<std::size_t>{1} : std::vector<std::size_t>{1, 3};
  for (const auto& group : {even, odd, {0, ranks - 1}, {ranks - 2, ranks - 1}}) {
    const auto errors = run_group(world(), group, [&](LocalRank& mine) {
      EXPECT_EQ(mine.communicator->size(), group.size());
      expect_gathered(mine, kPiece);
    });
    EXPECT_THAT(errors, Each(Eq(std::nullopt)));
    std::size_t local = 0;
    for (const std::size_t rank : group) local += world().local_ranks().contains(rank) ? 1 : 0;
    EXPECT_EQ(errors.size(), local);
  }
}

/// Any mixture of collectives back to back, with ranks that dawdle at random.
TEST(ProcessGroup, DelaysChangeNothing) {
  const std::size_t ranks = world().world_size();
  const auto dawdling = [](std::size_t rank) {
    const auto random = std::make_shared<std::mt19937>(rank);
    return CpuDeviceOptions{.faults = {.delay = [random](std::string_view, std::string_view) {
                              return std::chrono::microseconds((*random)() % 200);
                            }}};
  };
  const auto errors = run_world(
      [&](LocalRank& mine) {
        std::vector<float> values(ranks, 0);
        values[mine.rank] = static_cast<float>(mine.rank + 1);
        const DeviceBuffer buffer = upload(mine, values);
        for (std::size_t round = 0; round < 40; ++round) {
          mine.communicator->all_gather_async(buffer.data(), sizeof(float), *mine.stream);
          mine.communicator->broadcast_async(buffer.data(), buffer.size_bytes(), round % ranks, *mine.stream);
          mine.communicator->barrier_async(*mine.stream);
        }
        const auto count = static_cast<std::int64_t>(ranks);
        mine.communicator->all_reduce_async(TensorView(buffer.data(), DType::f32, {count}), *mine.stream);
        const std::vector<float> sums = download<float>(mine, buffer);
        for (std::size_t i = 0; i < ranks; ++i) EXPECT_EQ(sums[i], static_cast<float>(ranks * (i + 1)));
      },
      dawdling);
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ProcessGroup, ABarrierEndsWhenTheLastRankHasCome) {
  using Clock = std::chrono::steady_clock;  // of the machine, so of all its processes
  const auto errors = run_world([](LocalRank& mine) {
    if (mine.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::int64_t late = Clock::now().time_since_epoch().count();
    mine.communicator->barrier_async(*mine.stream);
    mine.stream->synchronize();
    const std::int64_t over = Clock::now().time_since_epoch().count();
    const DeviceBuffer buffer = upload(mine, std::vector<std::int64_t>{late});
    mine.communicator->broadcast_async(buffer.data(), sizeof(late), 0, *mine.stream);
    EXPECT_GE(over, download<std::int64_t>(mine, buffer).front());
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ProcessConnector, RefusesRanksOutsideItsWorldOrOutOfOrder) {
  const std::size_t ranks = world().world_size();
  for (const std::vector<std::size_t>& group : {std::vector<std::size_t>{}, {0, ranks}, {1, 0}})
    lamina::testing::expect_error(ErrorCode::internal, {"group 'tensor'", "world of"},
                                  [&] { world().connect_devices("tensor", group); });
}

}  // namespace
}  // namespace lamina::test
