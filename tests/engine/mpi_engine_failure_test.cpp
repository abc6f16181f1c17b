// Must hold 4: a rank that fails, and a process that is killed, in the middle of a pass. Every survivor ends by itself
// with the first reason and an exit code of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mpirun.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

MpiRun run_scenario(const std::string& name, std::size_t processes, std::size_t ranks) {
  return Mpirun(processes, {LAMINA_MPI_SCENARIO, name, std::to_string(ranks)}, true).wait();
}

void expect_all_ended(const MpiRun& run, std::size_t processes, std::size_t ranks, const std::string& reason) {
  SCOPED_TRACE(run.text);
  for (std::size_t process = 0; process < processes; ++process)
    EXPECT_THAT(run.text, HasSubstr("process " + std::to_string(process) + " exits with 1\n"));
  for (std::size_t rank = 0; rank < processes * ranks; ++rank)
    EXPECT_THAT(run.text, HasSubstr("rank " + std::to_string(rank) + " ended: " + reason));
}

TEST(ProcessFaults, ARefusedCopyEndsAllRanksWithItsReason) {
  const std::string reason = "device: rank 1 failed, and with it its group: copy ";
  expect_all_ended(run_scenario("copy", 3, 1), 3, 1, reason);
  expect_all_ended(run_scenario("copy", 2, 2), 2, 2, reason);
}

/// Ranks that gather nothing from each other end together, too, where they are in several processes.
TEST(ProcessFaults, EndRanksThatGatherNothing) {
  const MpiRun run = run_scenario("local", 2, 1);
  EXPECT_THAT(run.text, HasSubstr("rank 1 ended: device: rank 1 failed, and with it its group: copy "));
  EXPECT_THAT(run.text, HasSubstr("process 0 exits with 1\n"));
  EXPECT_THAT(run.text, HasSubstr("process 1 exits with 1\n"));
}

TEST(ProcessFaults, AKilledProcessIsNamedByAllSurvivors) {
  const MpiRun run = run_scenario("kill", 3, 1);
  SCOPED_TRACE(run.text);
  EXPECT_THAT(run.text, HasSubstr("process 1 exits with 137\n"));
  for (const char* survivor : {"0", "2"}) {
    EXPECT_THAT(run.text, HasSubstr("process " + std::string(survivor) + " exits with 1\n"));
    EXPECT_THAT(run.text, HasSubstr("rank " + std::string(survivor) +
                                    " ended: device: rank 1 failed, and with it its group: process 1 (rank 1) is gone: "
                                    "no sign of life for 1 s"));
  }
}

}  // namespace
}  // namespace lamina::test
