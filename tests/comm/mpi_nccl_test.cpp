// Collectives of GPUs in several processes, under mpirun: one GPU for each rank. The last test ends the world.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/bytes.h"
#include "comm/launched_process.h"
#include "comm/process_ranks.h"
#include "device/cuda/cuda_device.h"

namespace lamina::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// Runs `body` on a thread for each rank of this process, on its GPU; gives the errors' messages, "" for none.
template <typename Body>
std::vector<std::string> run_gpus(Body body) {
  std::vector<std::unique_ptr<Communicator>> ends = world().connect_devices("test", all_ranks());
  std::vector<std::string> errors(ends.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ends.size(); ++i)
    threads.emplace_back([&, i] {
      const std::size_t gpu = launched_process()->index_on_node * ends.size() + i;
      LocalRank mine{ends[i]->rank(), std::move(ends[i]), create_cuda_device({.index = static_cast<int>(gpu)}), {}};
      mine.stream = mine.device->create_stream("comm");
      try {
        body(mine);
        mine.stream->synchronize();
      } catch (const Error& error) {
        errors[i] = error.message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(ProcessGpus, GatherAPieceOfEveryRankInPlace) {
  const auto errors = run_gpus([](LocalRank& mine) {
    std::vector<int> values(world().world_size(), -1);
    values[mine.rank] = static_cast<int>(100 + mine.rank);
    const DeviceBuffer buffer = upload(mine, values);
    mine.communicator->all_gather_async(buffer.data(), sizeof(int), *mine.stream);
    const std::vector<int> gathered = download<int>(mine, buffer);
    for (std::size_t rank = 0; rank < gathered.size(); ++rank) EXPECT_EQ(gathered[rank], static_cast<int>(100 + rank));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ProcessGpus, Sum) {
  const auto errors = run_gpus([](LocalRank& mine) {
    const DeviceBuffer buffer = upload(mine, std::vector<float>{static_cast<float>(mine.rank + 1)});
    mine.communicator->all_reduce_async(TensorView(buffer.data(), DType::f32, {1}), *mine.stream);
    const auto ranks = static_cast<float>(world().world_size());
    EXPECT_EQ(download<float>(mine, buffer).front(), ranks * (ranks + 1) / 2);
    mine.communicator->barrier_async(*mine.stream);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ProcessGpus, ZAbortEndsTheWaitForARankThatNeverComes) {
  const auto errors = run_gpus([](LocalRank& mine) {
    const DeviceBuffer buffer = mine.device->allocate(world().world_size() * kMiB, "test");
    mine.communicator->all_gather_async(buffer.data(), kMiB, *mine.stream);
    mine.stream->synchronize();
    if (mine.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      mine.communicator->abort(Error(ErrorCode::corrupt, "planted: a bad file"));
    }
    mine.communicator->all_gather_async(buffer.data(), kMiB, *mine.stream);
  });
  EXPECT_THAT(errors, Each(HasSubstr("planted: a bad file")));
}

}  // namespace
}  // namespace lamina::test
