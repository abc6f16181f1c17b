#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

/// Runs the program until `files` stand in `folder`, sends the signal as often as asked, and returns the exit code; -1
/// for a program that the signal killed.
int interrupt_lamina(std::vector<std::string> arguments, const fs::path& folder, std::size_t files, int signal,
                     int times = 1) {
  const pid_t child = start_lamina(std::move(arguments));
  for (int i = 0; i < 1000 && files_in(folder) < files; ++i) ::usleep(10'000);
  ::usleep(300'000);
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(::kill(child, signal), 0);
    ::usleep(20'000);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Cli, AnInterruptedRunLeavesNothingBehind) {
  const std::vector<std::string> arguments = {"generate", kModel,        "--prompt",
                                              "x",        "--height",    "512",
                                              "--width",  "512",         "--num-inference-steps",
                                              "1000",     "--output",    file("x.png"),
                                              "--report", file("x.json")};
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 2, SIGTERM), 128 + SIGTERM);
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 2, SIGHUP), 128 + SIGHUP);
  // `timeout` and some shells signal a program and its group, so that one request comes twice.
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 2, SIGTERM, 2), 128 + SIGTERM);
  EXPECT_EQ(files_in(folder_), 0U);
}

TEST_F(Cli, AnInterruptionCancelsWhatRanksHaveNotServed) {
  std::ofstream(folder_ / "prompts.txt") << "x\ny\nz\n";
  const std::vector<std::string> arguments = {"generate",
                                              kModel,
                                              "--prompts",
                                              file("prompts.txt"),
                                              "--height",
                                              "512",
                                              "--width",
                                              "512",
                                              "--num-inference-steps",
                                              "1000",
                                              "--data-parallel-size",
                                              "2",
                                              "--enable-distributed-layerwise-offload",
                                              "--output",
                                              file("x.png")};
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 4, SIGINT), 128 + SIGINT);
  EXPECT_EQ(files_in(folder_), 1U) << "of the prompts alone";
}

TEST_F(Cli, AnInterruptionEndsTheWritingOfWeights) {
  constexpr std::uintmax_t kRoom = 10'000'000'000;  // that synth asks for before it begins; little of it is written
  if (fs::space(folder_).available < kRoom) GTEST_SKIP() << "10 GB of disk are needed";
  EXPECT_EQ(interrupt_lamina({"synth", "--size", "klein-4b", file("m")}, folder_, 1, SIGINT), 128 + SIGINT);
  EXPECT_EQ(files_in(folder_), 0U);
  EXPECT_EQ(interrupt_lamina({"bench", "--synthetic", "klein-4b", "--synthetic-folder", folder_.string()}, folder_, 1,
                             SIGINT),
            128 + SIGINT);
  EXPECT_EQ(files_in(folder_), 0U);
}

}  // namespace
}  // namespace lamina::test
