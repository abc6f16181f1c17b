#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "test_data.h"

namespace lamina::test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Starts the program with these arguments, without a shell; `prepare` runs in the child before.
pid_t start_lamina(std::vector<std::string> arguments, const std::function<void()>& prepare = {});

/// Runs the program to its end. `prepare` runs in the child, whose standard output and error are caught.
Outcome run_lamina(const std::vector<std::string>& arguments, const std::function<void()>& prepare = {});

/// Exit code 2 and one line on stderr that holds all of `parts`.
void expect_refused(const Outcome& outcome, const std::vector<std::string>& parts);

/// Files of a folder, hidden ones too.
std::size_t files_in(const fs::path& folder);

/// A folder of its own for each test, and the demo model.
class Cli : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// A small run; later arguments override nothing, they add.
  std::vector<std::string> generate(const std::vector<std::string>& more, const std::string& model = kModel) const;

  static inline const std::string kModel = test_data::models() / "tiny-shapes";
  fs::path folder_;
};

}  // namespace lamina::test
