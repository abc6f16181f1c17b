#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lamina/error.h"

namespace lamina::testing {

/// Expects that `action` throws an Error of that code with a one-line message that contains all `parts`.
template <typename Action>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), std::string(to_string(code))) << error.message();
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    for (const std::string& part : parts) EXPECT_THAT(error.message(), ::testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "no error was thrown; " << to_string(code) << " is expected";
}

}  // namespace lamina::testing
