#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/local_ranks.h"
#include "device/event.h"

namespace lamina::test {
namespace {

constexpr int kRuns = 10;
constexpr int kExitCodeOfThreadSanitizer = 66;
constexpr std::size_t kPieceBytes = 4096;

/// Two ranks that copy their pieces and gather them, twice. One of them may leave out the wait between the two, or let
/// the second copy go ahead of the first gather.
enum class Missing { nothing, copied, gathered };

[[noreturn]] void gather_twice(Missing missing) {
  run_ranks(2, [&](LocalRank& mine) {
    const bool errs = mine.rank == 1;
    const auto copy = mine.device->create_stream("copy");
    const auto copied = mine.device->create_event("copied");
    const auto gathered = mine.device->create_event("gathered");
    const DeviceBuffer buffer = mine.device->allocate(2 * kPieceBytes, "test");
    const PinnedBuffer shard = mine.device->allocate_pinned(kPieceBytes, "test");
    for (int round = 0; round < 2; ++round) {
      if (!errs || missing != Missing::gathered) copy->wait(*gathered);
      copy->copy_to_device_async(buffer.data() + mine.rank * kPieceBytes, shard.data(), kPieceBytes, "fetch");
      copy->record(*copied);
      if (!errs || missing != Missing::copied) mine.stream->wait(*copied);
      mine.communicator->all_gather_async(buffer.data(), kPieceBytes, *mine.stream);
      mine.stream->record(*gathered);
    }
    mine.stream->synchronize();
    copy->synchronize();
  });
  std::exit(0);
}

class PlantedCollectiveRace : public ::testing::Test {
 protected:
  PlantedCollectiveRace() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(PlantedCollectiveRace, BetweenCopyAndGatherIsSeenEveryTime) {
  for (int run = 0; run < kRuns; ++run)
    EXPECT_EXIT(gather_twice(Missing::copied), ::testing::ExitedWithCode(kExitCodeOfThreadSanitizer), "data race");
}

TEST_F(PlantedCollectiveRace, BetweenGatherAndTheNextCopyIsSeenEveryTime) {
  for (int run = 0; run < kRuns; ++run)
    EXPECT_EXIT(gather_twice(Missing::gathered), ::testing::ExitedWithCode(kExitCodeOfThreadSanitizer), "data race");
}

TEST_F(PlantedCollectiveRace, IsGoneWithAllWaits) {
  for (int run = 0; run < kRuns; ++run) EXPECT_EXIT(gather_twice(Missing::nothing), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lamina::test
