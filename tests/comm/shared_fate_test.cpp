#include "comm/shared_fate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/expect_error.h"

namespace lamina::test {
namespace {

using ::testing::ElementsAre;

TEST(SharedFate, EndsOnceAndForAll) {
  const auto fate = std::make_shared<SharedFate>();
  std::vector<std::string> heard;
  const auto listener = [&](const char* name) {
    return [&heard, name](const Error& reason) { heard.push_back(name + (": " + reason.message())); };
  };
  EXPECT_NO_THROW(fate->check());
  const SharedFate::Subscription first(fate, listener("first"));
  { const SharedFate::Subscription gone(fate, listener("gone")); }
  const SharedFate::Subscription second(fate, listener("second"));
  fate->end(Error(ErrorCode::cancelled, "one"));
  fate->end(Error(ErrorCode::device, "two"));
  EXPECT_THAT(heard, ElementsAre("first: one", "second: one"));
  const SharedFate::Subscription late(fate, listener("late"));
  EXPECT_THAT(heard, ElementsAre("first: one", "second: one", "late: one"));
  lamina::testing::expect_error(ErrorCode::cancelled, {"one"}, [&] { fate->check(); });
}

}  // namespace
}  // namespace lamina::test
