#include "comm/nccl/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/event.h"
#include "tensor/bf16.h"

namespace lamina::test {
namespace {

using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr std::size_t kRanks = 2;
constexpr std::size_t kPiece = 5;  // values

struct GpuRank {
  std::size_t rank;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Communicator> communicator;
};

using Body = std::function<void(GpuRank&)>;

/// Two GPUs, a thread for each; skipped with the reason where there are fewer.
class NcclGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      create_cuda_device({.index = kRanks - 1});
    } catch (const Error& error) {
      GTEST_SKIP() << "two GPUs are needed: " << error.message();
    }
  }

  /// The errors that ended the ranks.
  static std::vector<std::optional<Error>> run_ranks(const Body& body) {
    std::vector<std::unique_ptr<Communicator>> group = create_nccl_group("test", {0, 1});
    std::vector<std::optional<Error>> errors(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        GpuRank mine{rank, create_cuda_device({.index = static_cast<int>(rank)}), {}, std::move(group[rank])};
        mine.stream = mine.device->create_stream("comm");
        try {
          body(mine);
          mine.stream->synchronize();
        } catch (const Error& error) {
          errors[rank] = error;
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  template <typename T>
  static DeviceBuffer upload(GpuRank& mine, const std::vector<T>& values) {
    DeviceBuffer buffer = mine.device->allocate(values.size() * sizeof(T), "test");
    PinnedBuffer staging = mine.device->allocate_pinned(buffer.size_bytes(), "test");
    std::memcpy(staging.data(), values.data(), buffer.size_bytes());
    mine.stream->copy_to_device_async(buffer.data(), staging.data(), buffer.size_bytes(), "upload");
    mine.stream->synchronize();
    return buffer;
  }

  template <typename T>
  static std::vector<T> download(GpuRank& mine, const DeviceBuffer& buffer) {
    PinnedBuffer staging = mine.device->allocate_pinned(buffer.size_bytes(), "test");
    mine.stream->copy_to_host_async(staging.data(), buffer.data(), buffer.size_bytes(), "download");
    mine.stream->synchronize();
    std::vector<T> values(buffer.size_bytes() / sizeof(T));
    std::memcpy(values.data(), staging.data(), buffer.size_bytes());
    return values;
  }
};

/// What rank `rank` puts into place `i`.
int value_of(std::size_t rank, std::size_t i) {
  return static_cast<int>(1000 * (rank + 1) + i);
}

std::vector<int> values_of(std::size_t rank, std::size_t count) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

TEST_F(NcclGroup, GathersAPieceOfEveryRankInPlace) {
  const auto errors = run_ranks([](GpuRank& mine) {
    std::vector<int> values(kRanks * kPiece, -1);
    for (std::size_t i = 0; i < kPiece; ++i) values[mine.rank * kPiece + i] = value_of(mine.rank, i);
    const DeviceBuffer buffer = upload(mine, values);
    mine.communicator->all_gather_async(buffer.data(), kPiece * sizeof(int), *mine.stream);
    const std::vector<int> gathered = download<int>(mine, buffer);
    for (std::size_t place = 0; place < kRanks * kPiece; ++place)
      EXPECT_EQ(gathered[place], value_of(place / kPiece, place % kPiece)) << "rank " << mine.rank;
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_F(NcclGroup, SendsAPieceToEveryRank) {
  const auto errors = run_ranks([](GpuRank& mine) {
    const DeviceBuffer source = upload(mine, values_of(mine.rank, kRanks * kPiece));
    const DeviceBuffer target = mine.device->allocate(source.size_bytes(), "test");
    mine.communicator->all_to_all_async(source.data(), target.data(), kPiece * sizeof(int), *mine.stream);
    const std::vector<int> received = download<int>(mine, target);
    for (std::size_t place = 0; place < kRanks * kPiece; ++place)
      EXPECT_EQ(received[place], value_of(place / kPiece, mine.rank * kPiece + place % kPiece));
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_F(NcclGroup, BroadcastsFromAnyRank) {
  const auto errors = run_ranks([](GpuRank& mine) {
    for (std::size_t root = 0; root < kRanks; ++root) {
      const DeviceBuffer buffer = upload(mine, values_of(mine.rank, kPiece));
      mine.communicator->broadcast_async(buffer.data(), buffer.size_bytes(), root, *mine.stream);
      EXPECT_EQ(download<int>(mine, buffer), values_of(root, kPiece));
    }
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_F(NcclGroup, SumsInBothDtypes) {
  const auto errors = run_ranks([](GpuRank& mine) {
    const auto own = static_cast<float>(mine.rank + 1);
    const DeviceBuffer floats = upload(mine, std::vector<float>{own, 0.5F * own, -own});
    mine.communicator->all_reduce_async({floats.data(), DType::f32, {3}}, *mine.stream);
    EXPECT_EQ(download<float>(mine, floats), (std::vector<float>{3, 1.5F, -3}));
    // 257 needs nine bits: the sum is rounded to the even neighbour, 256.
    const DeviceBuffer halves = upload(mine, std::vector<std::uint16_t>{narrow(mine.rank == 0 ? 256.0F : 1.0F)});
    mine.communicator->all_reduce_async({halves.data(), DType::bf16, {1}}, *mine.stream);
    EXPECT_EQ(widen(download<std::uint16_t>(mine, halves).front()), 256);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_F(NcclGroup, ABarrierEndsWhenTheLastRankHasCome) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> over(kRanks);
  Clock::time_point late;
  const auto errors = run_ranks([&](GpuRank& mine) {
    mine.communicator->barrier_async(*mine.stream);  // connects
    mine.stream->synchronize();
    if (mine.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      late = Clock::now();
    }
    mine.communicator->barrier_async(*mine.stream);
    mine.stream->synchronize();
    over[mine.rank] = Clock::now();
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
  EXPECT_GE(over[0], late);
}

TEST_F(NcclGroup, AnAbortEndsTheWaitForARankThatNeverComes) {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = run_ranks([](GpuRank& mine) {
    const DeviceBuffer buffer = mine.device->allocate(kRanks * kMiB, "test");
    mine.communicator->all_gather_async(buffer.data(), kMiB, *mine.stream);
    mine.stream->synchronize();
    if (mine.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const Error reason(ErrorCode::corrupt, "rank 1 found a bad file");
      mine.communicator->abort(reason);
      throw reason;
    }
    mine.communicator->all_gather_async(buffer.data(), kMiB, *mine.stream);
    mine.stream->synchronize();
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), ErrorCode::corrupt);
    EXPECT_THAT(error->message(), HasSubstr("rank 1 found a bad file"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace lamina::test
