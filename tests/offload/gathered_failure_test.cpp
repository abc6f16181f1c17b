// Waits that are left out of a gathered stream, and ranks that fail in the middle of one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "base/expect_error.h"
#include "offload/stored_toy.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr std::size_t kUnits = 4;
constexpr std::size_t kPasses = 2;

/// Two passes with skipped units in them, so that everything waits for everything it ever has to.
void stream_some(LocalRank& mine, const StoredToy& toy, ShardPlace shards) {
  GatheredToy streamed(mine, toy, 2, 2048, {}, false, shards);
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    streamed.stream.begin_pass(0);
    if (pass + 1 < kPasses) streamed.stream.announce_next(0);
    for (const std::size_t unit : {std::size_t{0}, kUnits - 1}) streamed.visit({0, unit});
    streamed.stream.end_pass();
  }
  streamed.stream.take_statistics();
  EXPECT_EQ(streamed.part.wrong_reads(), 0U);
}

class GatheredStreamFaults : public ::testing::TestWithParam<ShardPlace> {};

INSTANTIATE_TEST_SUITE_P(Shards, GatheredStreamFaults, ::testing::Values(ShardPlace::host, ShardPlace::device),
                         [](const auto& place) { return place.param == ShardPlace::host ? "host" : "device"; });

TEST_P(GatheredStreamFaults, AnyWaitLeftOutIsFound) {
  const StoredToy toy({ToyPart::Sizes(kUnits, 1024)});
  std::mutex mutex;
  std::set<std::pair<std::string, std::string>> waits;
  const auto recording = [&](std::size_t) {
    return CpuDeviceOptions{.faults = {.drop_wait = [&](std::string_view stream, std::string_view event) {
                              const std::lock_guard lock(mutex);
                              waits.emplace(stream, event);
                              return false;
                            }}};
  };
  EXPECT_THAT(run_ranks(
                  2, [&](LocalRank& mine) { stream_some(mine, toy, GetParam()); }, std::nullopt, recording),
              Each(Eq(std::nullopt)));
  EXPECT_THAT(waits, ::testing::IsSupersetOf({std::pair<std::string, std::string>{"compute", "ready"},
                                              {"copy", "free"},
                                              {"copy", "ready"},
                                              {"weight gather", "piece copied"}}));
  for (const char* event : {"free", "copy end"}) waits.erase({"host", event});  // for the times of a visit
  for (const auto& [stream, event] : waits) {
    SCOPED_TRACE(stream + " does not wait for " + event);
    const auto errors = run_ranks(
        2,
        [&](LocalRank& mine) {
          try {
            stream_some(mine, toy, GetParam());
          } catch (const Error& error) {
            mine.communicator->abort(error);
            throw;
          }
        },
        std::nullopt,
        [&](std::size_t rank) {
          return CpuDeviceOptions{.faults = {.drop_wait = [&, rank](std::string_view at, std::string_view name) {
                                    return rank == 1 && at == stream && name == event;
                                  }}};
        });
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error.has_value());
      EXPECT_THAT(error->message(), HasSubstr("missing wait"));
    }
  }
}

/// A copy that is refused on one rank, at every place: all ranks end with that reason, and nothing stays booked.
TEST_P(GatheredStreamFaults, ARefusedCopyEndsAllRanks) {
  const StoredToy toy({ToyPart::Sizes(kUnits, 1024)});
  const std::size_t loaded = GetParam() == ShardPlace::device ? kUnits * 2 : 0;
  for (std::uint64_t copy = 1; copy <= loaded + kPasses * kUnits * 2; ++copy) {
    SCOPED_TRACE("copy " + std::to_string(copy));
    const auto errors = run_ranks(3, [&](LocalRank& mine) {
      if (mine.rank == 1) set_cpu_faults(*mine.device, {.fail_copy = copy});
      try {
        GatheredToy streamed(mine, toy, 2, 4096, {}, false, GetParam());
        try {
          traverse(streamed.stream, streamed.part, *streamed.compute, kUnits, kPasses);
          streamed.stream.take_statistics();
        } catch (const Error& error) {
          EXPECT_THROW(streamed.source.check(), Error);
          mine.communicator->abort(error);  // before what is given up waits for the others
          throw;
        }
      } catch (const Error& error) {
        mine.communicator->abort(error);
        EXPECT_EQ(mine.device->memory().use().used_bytes, 0U);
        EXPECT_EQ(mine.device->pinned_bytes(), 0U);
        throw;
      }
    });
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error.has_value());
      expect_error(ErrorCode::device,
                   {copy <= loaded ? "copy 'load shard'" : "copy 'fetch unit'", "of 256 bytes", "was refused"},
                   [&] { throw *error; });
    }
  }
}

/// A rank that stops at any place in a pass, as one does whose model throws. Not at the last visit: its gather is
/// enqueued before, so the others may end well.
TEST(GatheredStreamFailure, ARankThatThrowsInAPassEndsTheOthersWithItsReason) {
  const StoredToy toy({ToyPart::Sizes(kUnits, 1024)});
  for (std::size_t place = 0; place + 1 < kPasses * kUnits; ++place) {
    SCOPED_TRACE("visit " + std::to_string(place));
    const auto errors = run_ranks(3, [&](LocalRank& mine) {
      GatheredToy streamed(mine, toy, 1, 2048);
      try {
        for (std::size_t visit = 0; visit < kPasses * kUnits; ++visit) {
          if (visit % kUnits == 0) streamed.stream.begin_pass(0);
          if (visit == 0) streamed.stream.announce_next(0);
          if (mine.rank == 2 && visit == place) fail(ErrorCode::out_of_device_memory, "planted in visit {}", visit);
          streamed.visit({0, visit % kUnits});
          if (visit % kUnits == kUnits - 1) streamed.stream.end_pass();
        }
        streamed.stream.take_statistics();
      } catch (const Error& error) {
        mine.communicator->abort(error);
        throw;
      }
    });
    const std::string reason = "planted in visit " + std::to_string(place);
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error.has_value());
      expect_error(ErrorCode::out_of_device_memory, {reason}, [&] { throw *error; });
    }
  }
}

}  // namespace
}  // namespace lamina::test
