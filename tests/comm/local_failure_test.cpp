// How a group of threads ends: ranks that disagree, abort, leave or do not come. Whatever happens where, every rank
// ends, and with the first reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/expect_error.h"
#include "comm/local_ranks.h"
#include "device/cpu/cpu_stream.h"
#include "device/event.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kRanks = 3;
constexpr std::size_t kBytes = 64;  // of a piece

using Step = std::function<void(LocalRank&, const DeviceBuffer&)>;

/// One step of each kind.
const std::vector<Step>& steps() {
  static const std::vector<Step> kSteps{
      [](LocalRank& mine, const DeviceBuffer& buffer) {
        mine.communicator->all_gather_async(buffer.data(), kBytes, *mine.stream);
      },
      [](LocalRank& mine, const DeviceBuffer& buffer) {
        mine.communicator->all_to_all_async(buffer.data(), buffer.data() + kRanks * kBytes, kBytes, *mine.stream);
      },
      [](LocalRank& mine, const DeviceBuffer& buffer) {
        mine.communicator->all_reduce_async(TensorView(buffer.data(), DType::f32, {kBytes / 4}), *mine.stream);
      },
      [](LocalRank& mine, const DeviceBuffer& buffer) {
        mine.communicator->broadcast_async(buffer.data(), kBytes, 1, *mine.stream);
      },
      [](LocalRank& mine, const DeviceBuffer&) { mine.communicator->barrier_async(*mine.stream); }};
  return kSteps;
}

/// A rank that does all steps, and `instead` in place of step `at`.
void do_steps(LocalRank& mine, std::size_t at, const Step& instead) {
  const DeviceBuffer buffer = mine.device->allocate(2 * kRanks * kBytes, "test");
  try {
    for (std::size_t step = 0; step < steps().size(); ++step) (step == at ? instead : steps()[step])(mine, buffer);
    mine.stream->synchronize();
  } catch (...) {
    try {
      mine.stream->synchronize();
    } catch (const Error&) {  // the same reason once more
    }
    throw;
  }
}

void expect_all_end_with(const std::vector<std::optional<Error>>& errors, ErrorCode code,
                         const std::vector<std::string>& parts) {
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->message(), errors.front()->message());
    expect_error(code, parts, [&] { throw *error; });
  }
}

class AtEachStep : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {
 protected:
  std::size_t step() const { return std::get<0>(GetParam()); }
  std::size_t faulty() const { return std::get<1>(GetParam()); }

  std::vector<std::optional<Error>> run_with(const Step& instead) const {
    return run_ranks(
        kRanks, [&](LocalRank& mine) { do_steps(mine, mine.rank == faulty() ? step() : steps().size(), instead); });
  }
};

INSTANTIATE_TEST_SUITE_P(Steps, AtEachStep,
                         ::testing::Combine(::testing::Range<std::size_t>(0, 5), ::testing::Range<std::size_t>(0, 3)),
                         [](const auto& at) {
                           return "step" + std::to_string(std::get<0>(at.param)) + "_rank" +
                                  std::to_string(std::get<1>(at.param));
                         });

TEST_P(AtEachStep, AnAbortGivesItsReasonToAllRanks) {
  const auto errors = run_with([](LocalRank& mine, const DeviceBuffer&) {
    mine.communicator->abort(Error(ErrorCode::out_of_device_memory, "planted reason"));
    mine.communicator->abort(Error(ErrorCode::internal, "a later reason"));
    mine.communicator->check();  // its own collectives may all be over
  });
  expect_all_end_with(errors, ErrorCode::out_of_device_memory, {"planted reason"});
}

TEST_P(AtEachStep, AnotherCollectiveIsNamedOnAllRanks) {
  const Step& other = steps()[(step() + 1) % steps().size()];
  expect_all_end_with(run_with(other), ErrorCode::internal,
                      {"group 'test'", "disagree",
                       "rank " + std::to_string(faulty()) + " entered collective " + std::to_string(step() + 1) + ","});
}

TEST_P(AtEachStep, ARankThatLeavesEndsTheWaitsForIt) {
  const auto errors = run_with([](LocalRank& mine, const DeviceBuffer&) {
    mine.stream->synchronize();
    mine.communicator.reset();
    fail(ErrorCode::cancelled, "left");
  });
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(errors[rank].has_value());
    if (rank == faulty()) continue;
    expect_error(ErrorCode::device,
                 {"waits in collective " + std::to_string(step() + 1), "rank " + std::to_string(faulty()), "left"},
                 [&] { throw *errors[rank]; });
  }
}

TEST_P(AtEachStep, ARankThatDoesNotComeInTimeIsNamed) {
  std::atomic<std::size_t> ended{0};
  const auto errors = run_ranks(
      kRanks,
      [&](LocalRank& mine) {
        const auto stuck = [&](LocalRank&, const DeviceBuffer&) {
          mine.stream->synchronize();
          while (ended < kRanks - 1) std::this_thread::sleep_for(milliseconds(1));
          mine.communicator->check();
        };
        try {
          do_steps(mine, mine.rank == faulty() ? step() : steps().size(), stuck);
        } catch (...) {
          ++ended;
          throw;
        }
      },
      milliseconds(500));
  expect_all_end_with(errors, ErrorCode::device,
                      {"collective " + std::to_string(step() + 1),
                       "for rank " + std::to_string(faulty()) + ", which did not come within 500 ms"});
}

TEST(LocalFailure, OtherSizesDTypesRootsAndOrdersAreNamed) {
  const auto entered_together = [](const Step& by_rank_0, const Step& by_rank_1) {
    const auto errors = run_ranks(2, [&](LocalRank& mine) {
      const DeviceBuffer buffer = mine.device->allocate(4 * kBytes, "test");
      (mine.rank == 0 ? by_rank_0 : by_rank_1)(mine, buffer);
      mine.stream->synchronize();
    });
    EXPECT_EQ(errors[0]->message(), errors[1]->message());
    return errors[0]->message();
  };
  const auto gather = [](std::size_t size) {
    return [size](LocalRank& mine, const DeviceBuffer& buffer) {
      mine.communicator->all_gather_async(buffer.data(), size, *mine.stream);
    };
  };
  const auto broadcast = [](std::size_t root) {
    return [root](LocalRank& mine, const DeviceBuffer& buffer) {
      mine.communicator->broadcast_async(buffer.data(), kBytes, root, *mine.stream);
    };
  };
  const auto reduce = [](DType dtype) {
    return [dtype](LocalRank& mine, const DeviceBuffer& buffer) {
      const auto count = static_cast<std::int64_t>(kBytes / size_of(dtype));
      mine.communicator->all_reduce_async(TensorView(buffer.data(), dtype, {count}), *mine.stream);
    };
  };
  EXPECT_EQ(entered_together(gather(64), gather(32)),
            "the ranks of group 'test' disagree on their order: rank 0 entered collective 1, all-gather of 64 bytes, "
            "rank 1 entered collective 1, all-gather of 32 bytes");
  EXPECT_THAT(entered_together(broadcast(0), broadcast(1)), HasSubstr("broadcast from rank 1"));
  EXPECT_THAT(entered_together(reduce(DType::bf16), reduce(DType::f32)), HasSubstr("all-reduce (BF16)"));
}

/// Work behind an error of its stream is skipped, collectives too: the rank is then behind the others, which shows at
/// the next one it enters.
TEST(LocalFailure, ACollectiveThatWasSkippedShowsInTheSequence) {
  const auto errors = run_ranks(2, [](LocalRank& mine) {
    if (mine.rank == 0) {
      cpu::launch(*mine.stream, {"failing", {}, {}}, [] { fail(ErrorCode::device, "planted"); });
      mine.communicator->barrier_async(*mine.stream);
      expect_error(ErrorCode::device, {"planted"}, [&] { mine.stream->synchronize(); });
    } else {
      mine.communicator->barrier_async(*mine.stream);
    }
    mine.communicator->barrier_async(*mine.stream);
    mine.stream->synchronize();
  });
  expect_all_end_with(errors, ErrorCode::internal, {"rank 0 entered collective 2", "rank 1 entered collective 1"});
}

TEST(LocalFailure, AnEndedGroupRefusesFurtherCollectives) {
  const auto errors = run_ranks(1, [](LocalRank& mine) {
    EXPECT_NO_THROW(mine.communicator->check());
    mine.communicator->abort(Error(ErrorCode::unavailable, "planted"));
    expect_error(ErrorCode::unavailable, {"planted"}, [&] { mine.communicator->check(); });
    mine.communicator->barrier_async(*mine.stream);
  });
  expect_all_end_with(errors, ErrorCode::unavailable, {"planted"});
}

TEST(LocalFailure, RanksMayLeaveInAnyOrderOnceAllIsOver) {
  const auto errors = run_ranks(kRanks, [](LocalRank& mine) {
    mine.communicator->barrier_async(*mine.stream);
    mine.stream->synchronize();
    if (mine.rank == 1) mine.communicator.reset();
  });
  EXPECT_THAT(errors, Each(::testing::Eq(std::nullopt)));
}

/// Nothing of one group's end reaches another.
TEST(LocalFailure, GroupsAreApart) {
  std::vector<std::unique_ptr<Communicator>> other = create_local_group("other", kRanks);
  const auto errors = run_ranks(kRanks, [&](LocalRank& mine) {
    if (mine.rank == 0) mine.communicator->abort(Error(ErrorCode::unavailable, "planted"));
    other[mine.rank]->barrier_async(*mine.stream);
    mine.stream->synchronize();
    other[mine.rank]->check();
  });
  EXPECT_THAT(errors, Each(::testing::Eq(std::nullopt)));
}

}  // namespace
}  // namespace lamina::test
