#include "device/order_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "catch_error.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class OrderCheckerTest : public ::testing::Test {
 protected:
  OrderCheckerTest() { order_.watch(bytes(0, 100), "ring"); }

  MemoryRange bytes(std::size_t begin, std::size_t end) const { return {memory_.data() + 100 + begin, end - begin}; }

  void read(OrderChecker::Lane lane, std::size_t begin, std::size_t end, std::string_view name = "read") {
    order_.access(lane, {name, {bytes(begin, end)}, {}});
  }
  void write(OrderChecker::Lane lane, std::size_t begin, std::size_t end, std::string_view name = "write") {
    order_.access(lane, {name, {}, {bytes(begin, end)}});
  }
  /// `lane` waits for all that `other` has done.
  void wait(OrderChecker::Lane lane, OrderChecker::Lane other) { order_.join(lane, order_.record(other)); }

  template <typename Function>
  void expect_violation(Function function) {
    EXPECT_EQ(catch_error(function).code(), ErrorCode::internal);
  }

  std::array<std::byte, 300> memory_{};
  OrderChecker order_;
  OrderChecker::Lane copy_ = order_.add_lane("copy");
  OrderChecker::Lane compute_ = order_.add_lane("compute");
  OrderChecker::Lane gather_ = order_.add_lane("gather");
};

TEST_F(OrderCheckerTest, ReadsNeedTheWaitForTheWrite) {
  write(copy_, 0, 50);
  expect_violation([&] { read(compute_, 0, 50); });
  wait(compute_, copy_);
  read(compute_, 0, 50);
  EXPECT_EQ(order_.proven_pairs(), 1U);
}

TEST_F(OrderCheckerTest, WritesNeedTheWaitForTheRead) {
  read(compute_, 0, 50);
  expect_violation([&] { write(copy_, 0, 50); });
  wait(copy_, compute_);
  write(copy_, 0, 50);
}

TEST_F(OrderCheckerTest, WritesNeedTheWaitForTheWrite) {
  write(compute_, 0, 50);
  expect_violation([&] { write(copy_, 0, 50); });
  wait(copy_, compute_);
  write(copy_, 0, 50);
}

TEST_F(OrderCheckerTest, ReadsDoNotConflict) {
  read(compute_, 0, 50);
  read(copy_, 0, 50);
  EXPECT_EQ(order_.proven_pairs(), 0U);
}

TEST_F(OrderCheckerTest, ALaneIsOrderedWithItself) {
  write(copy_, 0, 50);
  read(copy_, 0, 50);
  write(copy_, 0, 50);
  EXPECT_EQ(order_.proven_pairs(), 0U);
}

TEST_F(OrderCheckerTest, AWaitCoversOnlyWhatWasDoneBeforeTheRecord) {
  write(copy_, 0, 50);
  const OrderChecker::Clock early = order_.record(copy_);
  write(copy_, 50, 100);
  order_.join(compute_, early);
  read(compute_, 0, 50);
  expect_violation([&] { read(compute_, 50, 100); });
}

TEST_F(OrderCheckerTest, OrderIsTransitiveThroughAThirdLane) {
  write(copy_, 0, 50);
  wait(gather_, copy_);
  wait(compute_, gather_);
  read(compute_, 0, 50);
}

TEST_F(OrderCheckerTest, TheHostOrdersWhatItLaunchesLater) {
  write(copy_, 0, 50);
  wait(OrderChecker::kHost, copy_);
  read(compute_, 0, 50);
}

TEST_F(OrderCheckerTest, TheHostItselfMustWait) {
  read(copy_, 0, 50, "copy from staging");
  expect_violation([&] { write(OrderChecker::kHost, 0, 50); });
  wait(OrderChecker::kHost, copy_);
  write(OrderChecker::kHost, 0, 50);
  read(copy_, 0, 50);  // launched after the host has written
}

TEST_F(OrderCheckerTest, TheHostOrdersOnlyWhatItHasWaitedFor) {
  write(copy_, 0, 50);
  write(gather_, 50, 100);
  wait(OrderChecker::kHost, copy_);
  read(compute_, 0, 50);
  expect_violation([&] { read(compute_, 50, 100); });
}

TEST_F(OrderCheckerTest, OnlySharedBytesConflict) {
  write(copy_, 20, 50);
  read(compute_, 0, 20);
  read(compute_, 50, 100);
  const Error error = catch_error([&] { read(compute_, 40, 60, "linear"); });
  EXPECT_EQ(error.message(),
            "missing wait: 'linear' on compute reads bytes [40, 50) of ring, which 'write' on copy writes, unordered");
}

TEST_F(OrderCheckerTest, MemoryThatIsNotWatchedIsNotChecked) {
  const auto outside = [&](OrderChecker::Lane lane) {
    order_.access(lane, {"outside", {}, {{memory_.data(), 100}, {memory_.data() + 200, 100}}});
  };
  outside(copy_);
  outside(compute_);
  write(copy_, 0, 50);
  order_.unwatch(bytes(0, 100));
  read(compute_, 0, 50);
  order_.watch(bytes(0, 100), "ring");
  read(compute_, 0, 50);  // the uses before went with the old watch
}

TEST_F(OrderCheckerTest, AccessesThatReachBeyondTheWatchedBytesAreClipped) {
  order_.access(copy_, {"wide", {}, {{memory_.data(), memory_.size()}}});
  const Error error = catch_error([&] { order_.access(compute_, {"wide", {{memory_.data(), 150}}, {}}); });
  EXPECT_THAT(error.message(), HasSubstr("[0, 50) of ring"));
}

TEST_F(OrderCheckerTest, BytesLeftOfAPartlyOverwrittenUseStillCount) {
  write(copy_, 0, 100, "old");
  wait(gather_, copy_);
  write(gather_, 30, 60, "new");
  EXPECT_THAT(catch_error([&] { read(compute_, 0, 30); }).message(), HasSubstr("'old' on copy"));
  EXPECT_THAT(catch_error([&] { read(compute_, 30, 60); }).message(), HasSubstr("'new' on gather"));
  EXPECT_THAT(catch_error([&] { read(compute_, 60, 100); }).message(), HasSubstr("'old' on copy"));
  wait(compute_, gather_);
  read(compute_, 0, 100);
  EXPECT_EQ(order_.proven_pairs(), 1U + 3U);
}

TEST_F(OrderCheckerTest, UsesDoNotPileUp) {
  for (int round = 0; round < 1000; ++round) {
    write(copy_, 0, 100);
    wait(compute_, copy_);
    for (int sample = 0; sample < 3; ++sample) {
      read(compute_, 0, 60);
      read(compute_, 40, 100);
    }
    wait(copy_, compute_);
  }
  // A round proves: [0, 60) and [40, 100) after the write, three times; then the write after what the last sample left,
  // [0, 40) and [40, 100).
  EXPECT_EQ(order_.proven_pairs(), 1000U * 6U + 999U * 2U);
}

TEST_F(OrderCheckerTest, AnAccessThatDidNotHappenIsNotRemembered) {
  order_.check(copy_, {"refused", {bytes(0, 50)}, {}});
  write(OrderChecker::kHost, 0, 50);
  order_.note(copy_, {"done", {bytes(0, 50)}, {}});
  expect_violation([&] { write(OrderChecker::kHost, 0, 50); });
}

TEST_F(OrderCheckerTest, ALaneThatEndedIsBehindEverybodyAndItsNumberIsUsedAgain) {
  write(copy_, 0, 50);
  order_.remove_lane(copy_);
  read(compute_, 0, 50);
  EXPECT_EQ(order_.add_lane("copy again"), copy_);
  expect_violation([&] { write(copy_, 0, 50); });
}

TEST_F(OrderCheckerTest, NamesMayDieAfterTheCall) {
  {
    const std::string name = "a name that is too long for the short string buffer";
    write(copy_, 0, 50, name);
  }
  EXPECT_THAT(catch_error([&] { read(compute_, 0, 50); }).message(), HasSubstr("too long for the short string buffer"));
}

}  // namespace
}  // namespace lamina::testing
