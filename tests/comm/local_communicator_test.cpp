#include "comm/local/local_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <random>

#include "base/expect_error.h"
#include "comm/local_ranks.h"
#include "device/cpu/cpu_stream.h"
#include "device/event.h"
#include "tensor/bf16.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
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

class LocalGroup : public ::testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Ranks, LocalGroup, ::testing::Values(1, 2, 3, 4));

TEST_P(LocalGroup, GathersAPieceOfEveryRankInPlace) {
  const std::size_t ranks = GetParam();
  const auto errors = run_ranks(ranks, [&](LocalRank& mine) {
    std::vector<int> values(ranks * kPiece, -1);
    for (std::size_t i = 0; i < kPiece; ++i) values[mine.rank * kPiece + i] = value_of(mine.rank, i);
    const DeviceBuffer buffer = upload(mine, values);
    mine.communicator->all_gather_async(buffer.data(), kPiece * sizeof(int), *mine.stream);
    const std::vector<int> gathered = download<int>(mine, buffer);
    for (std::size_t place = 0; place < ranks * kPiece; ++place)
      ASSERT_EQ(gathered[place], value_of(place / kPiece, place % kPiece)) << "rank " << mine.rank;
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_P(LocalGroup, SendsAPieceToEveryRank) {
  const std::size_t ranks = GetParam();
  const auto errors = run_ranks(ranks, [&](LocalRank& mine) {
    const DeviceBuffer source = upload(mine, values_of(mine.rank, ranks * kPiece));
    const DeviceBuffer target = mine.device->allocate(source.size_bytes(), "test");
    mine.communicator->all_to_all_async(source.data(), target.data(), kPiece * sizeof(int), *mine.stream);
    const std::vector<int> received = download<int>(mine, target);
    for (std::size_t place = 0; place < ranks * kPiece; ++place)
      ASSERT_EQ(received[place], value_of(place / kPiece, mine.rank * kPiece + place % kPiece));
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_P(LocalGroup, BroadcastsFromAnyRank) {
  const std::size_t ranks = GetParam();
  const auto errors = run_ranks(ranks, [&](LocalRank& mine) {
    for (std::size_t root = 0; root < ranks; ++root) {
      const DeviceBuffer buffer = upload(mine, values_of(mine.rank, kPiece));
      mine.communicator->broadcast_async(buffer.data(), buffer.size_bytes(), root, *mine.stream);
      ASSERT_EQ(download<int>(mine, buffer), values_of(root, kPiece));
    }
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_P(LocalGroup, SumsOverAllRanks) {
  const std::size_t ranks = GetParam();
  const auto errors = run_ranks(ranks, [&](LocalRank& mine) {
    std::vector<float> values(kPiece);
    std::vector<std::uint16_t> halves(kPiece);
    for (std::size_t i = 0; i < kPiece; ++i)
      halves[i] = narrow(values[i] = static_cast<float>((mine.rank + 1) * (i + 1)));
    const DeviceBuffer full = upload(mine, values);
    const DeviceBuffer half = upload(mine, halves);
    mine.communicator->all_reduce_async(TensorView(full.data(), DType::f32, {kPiece}), *mine.stream);
    mine.communicator->all_reduce_async(TensorView(half.data(), DType::bf16, {kPiece}), *mine.stream);
    const std::vector<float> sums = download<float>(mine, full);
    const std::vector<std::uint16_t> half_sums = download<std::uint16_t>(mine, half);
    for (std::size_t i = 0; i < kPiece; ++i) {
      const auto expected = static_cast<float>(ranks * (ranks + 1) / 2 * (i + 1));
      ASSERT_EQ(sums[i], expected);
      ASSERT_EQ(widen(half_sums[i]), expected);
    }
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(LocalGroupSums, AreMadeInTheOrderOfRanksAndRoundedOnce) {
  // In f32 (1e8 + 1) - 1e8 is 0; in any other order it is 1. In bf16 256 + 1 is 256, but 256 + 1 + 1 + 2 is 260.
  const std::vector<float> by_rank{1e8F, 1, -1e8F, 0};
  const std::vector<float> half_by_rank{256, 1, 1, 2};
  const auto errors = run_ranks(4, [&](LocalRank& mine) {
    const DeviceBuffer full = upload(mine, std::vector<float>{by_rank[mine.rank]});
    const DeviceBuffer half = upload(mine, std::vector<std::uint16_t>{narrow(half_by_rank[mine.rank])});
    mine.communicator->all_reduce_async(TensorView(full.data(), DType::f32, {1}), *mine.stream);
    mine.communicator->all_reduce_async(TensorView(half.data(), DType::bf16, {1}), *mine.stream);
    EXPECT_EQ(download<float>(mine, full).front(), 0);
    EXPECT_EQ(widen(download<std::uint16_t>(mine, half).front()), 260);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

/// Any mixture of collectives back to back, with ranks that dawdle at random.
TEST(LocalGroupOrder, DelaysChangeNothing) {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kRounds = 40;
  const auto dawdling = [](std::size_t rank) {
    const auto random = std::make_shared<std::mt19937>(rank);
    return CpuDeviceOptions{
        .faults = {.delay = [random](std::string_view, std::string_view) { return microseconds((*random)() % 200); }}};
  };
  const auto errors = run_ranks(
      kRanks,
      [&](LocalRank& mine) {
        std::vector<float> values(kRanks, 0);
        values[mine.rank] = static_cast<float>(mine.rank + 1);
        const DeviceBuffer buffer = upload(mine, values);
        for (std::size_t round = 0; round < kRounds; ++round) {
          mine.communicator->all_gather_async(buffer.data(), sizeof(float), *mine.stream);
          mine.communicator->broadcast_async(buffer.data(), buffer.size_bytes(), round % kRanks, *mine.stream);
          mine.communicator->barrier_async(*mine.stream);
        }
        mine.communicator->all_reduce_async(TensorView(buffer.data(), DType::f32, {kRanks}), *mine.stream);
        EXPECT_THAT(download<float>(mine, buffer), ::testing::ElementsAre(3, 6, 9));
      },
      std::nullopt, dawdling);
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(LocalGroupOrder, CollectivesAreShownToTheOrderChecker) {
  const auto errors = run_ranks(2, [](LocalRank& mine) {
    const std::unique_ptr<Stream> copy = mine.device->create_stream("copy");
    const std::unique_ptr<Event> copied = mine.device->create_event("copied");
    const DeviceBuffer buffer = mine.device->allocate(512, "test");
    const PinnedBuffer shard = mine.device->allocate_pinned(256, "test");
    mine.device->order().watch({buffer.data(), 512}, "ring");
    copy->copy_to_device_async(buffer.data() + mine.rank * 256, shard.data(), 256, "fetch");
    copy->record(*copied);
    expect_error(ErrorCode::internal, {"missing wait", "'all-gather' on comm reads", "'fetch' on copy writes"},
                 [&] { mine.communicator->all_gather_async(buffer.data(), 256, *mine.stream); });
    mine.stream->wait(*copied);
    mine.communicator->all_gather_async(buffer.data(), 256, *mine.stream);
    std::byte* peers_half = buffer.data() + (1 - mine.rank) * 256;
    expect_error(ErrorCode::internal, {"missing wait", "'fetch' on copy writes", "'all-gather' on comm writes"},
                 [&] { copy->copy_to_device_async(peers_half, shard.data(), 256, "fetch"); });
    mine.stream->synchronize();
    mine.device->order().unwatch({buffer.data(), 512});
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(LocalGroupTime, EndsOnEveryVirtualClockWhenTheLastRankIsThrough) {
  const auto clock = [](std::size_t) {
    return CpuDeviceOptions{.virtual_cost = [](std::string_view, std::string_view work, std::size_t size_bytes) {
      if (work == "all-gather") return nanoseconds(10 * size_bytes);
      return work == "compute of rank 2" ? nanoseconds(700) : nanoseconds(100);
    }};
  };
  const auto errors = run_ranks(
      3,
      [](LocalRank& mine) {
        const DeviceBuffer buffer = mine.device->allocate(3 * 4, "test");
        const std::string name = "compute of rank " + std::to_string(mine.rank);
        cpu::launch(*mine.stream, {name, {}, {}}, [] {});
        mine.communicator->all_gather_async(buffer.data(), 4, *mine.stream);
        const std::unique_ptr<Event> done = mine.device->create_event("done");
        mine.stream->record(*done);
        mine.stream->synchronize();
        EXPECT_EQ(done->time(), nanoseconds(700 + 120)) << "rank " << mine.rank;
      },
      std::nullopt, clock);
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

TEST(LocalGroupTime, WaitingTakesNoProcessorTime) {
  const auto errors = run_ranks(2, [](LocalRank& mine) {
    nanoseconds before{0};
    nanoseconds waited{0};
    cpu::launch(*mine.stream, {"begin", {}, {}}, [&] {
      before = processor_time();
      if (mine.rank == 1) std::this_thread::sleep_for(milliseconds(300));
    });
    mine.communicator->barrier_async(*mine.stream);
    cpu::launch(*mine.stream, {"end", {}, {}}, [&] { waited = processor_time() - before; });
    mine.stream->synchronize();
    EXPECT_LT(waited, milliseconds(30)) << "rank " << mine.rank;
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(LocalGroupContracts, RefuseWhatNoGroupCanDo) {
  run_ranks(1, [](LocalRank& mine) {
    const DeviceBuffer buffer = mine.device->allocate(64, "test");
    expect_error(ErrorCode::internal, {"rank 1", "group 'test' of 1"},
                 [&] { mine.communicator->broadcast_async(buffer.data(), 64, 1, *mine.stream); });
    expect_error(ErrorCode::internal, {"in place"},
                 [&] { mine.communicator->all_to_all_async(buffer.data(), buffer.data() + 8, 16, *mine.stream); });
    expect_error(ErrorCode::internal, {"f32 or bf16"}, [&] {
      mine.communicator->all_reduce_async(TensorView(buffer.data(), DType::u8, {64}), *mine.stream);
    });
  });
}

}  // namespace
}  // namespace lamina::test
