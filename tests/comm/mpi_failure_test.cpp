// How a world of processes ends: ranks that disagree, fail, leave, hang or are killed. Whatever happens where, every
// process that lives ends by itself, with the first reason and an exit code of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mpirun.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

Mpirun scenario(const std::string& name, std::size_t processes, std::size_t ranks, bool recovers = true) {
  return {processes, {LAMINA_MPI_SCENARIO, name, std::to_string(ranks)}, recovers};
}

MpiRun run_scenario(const std::string& name, std::size_t processes, std::size_t ranks) {
  return scenario(name, processes, ranks).wait();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// All processes but `dead` ended with that code, and all their ranks for a reason with `part`.
void expect_ended(const MpiRun& run, std::size_t processes, std::size_t ranks, int code, const std::string& part,
                  std::size_t dead = 99) {
  SCOPED_TRACE(run.text);
  for (std::size_t process = 0; process < processes; ++process) {
    const std::string exits = "process " + std::to_string(process) + " exits with ";
    EXPECT_THAT(run.text, HasSubstr(exits + std::to_string(process == dead ? 137 : code) + "\n"));
    if (process == dead) continue;
    for (std::size_t rank = process * ranks; rank < (process + 1) * ranks; ++rank) {
      const std::size_t at = run.text.find("rank " + std::to_string(rank) + " ended: ");
      ASSERT_NE(at, std::string::npos);
      EXPECT_THAT(run.text.substr(at, run.text.find('\n', at) - at), HasSubstr(part));
    }
  }
}

TEST(ProcessFailures, AWorldWithoutOneEndsWithZero) {
  const MpiRun run = scenario("nothing", 2, 2, false).wait();
  EXPECT_EQ(run.exit_code, 0) << run.text;
  EXPECT_EQ(run.text, "");
}

TEST(ProcessFailures, RanksThatDisagreeAreNamed) {
  const std::string all_gather = "rank 0 entered collective 2, all-gather of 64 bytes, ";
  const MpiRun kind = run_scenario("kind", 2, 1);
  expect_ended(kind, 2, 1, 1, all_gather + "rank 1 entered collective 2, broadcast from rank 1 of 64 bytes");
  expect_ended(run_scenario("kind", 2, 2), 2, 2, 1, "rank 3 entered collective 2, broadcast from rank 1 of 64 bytes");
  expect_ended(run_scenario("size", 2, 1), 2, 1, 1,
               "rank 0 entered collective 1, all-gather of 64 bytes, rank 1 entered collective 1, all-gather of 128 "
               "bytes");
}

TEST(ProcessFailures, OneRanksReasonEndsAll) {
  const std::string reason = "corrupt: rank 1 failed, and with it its group: planted: a bad file";
  const MpiRun round = run_scenario("abort in a round", 3, 1);
  expect_ended(round, 3, 1, 2, reason);
  EXPECT_EQ(count(round.text, "lamina: " + reason + "\n"), 3U) << round.text;
  expect_ended(run_scenario("abort in a round", 2, 2), 2, 2, 2, reason);
  expect_ended(run_scenario("abort in a collective", 2, 2), 2, 2, 2, "out_of_device_memory: rank 1 failed, ");
}

TEST(ProcessFailures, ARankThatLeftEndsTheOthers) {
  const MpiRun run = run_scenario("leave", 2, 1);
  EXPECT_THAT(
      run.text,
      HasSubstr("rank 0 failed, and with it its group: group 'test' waits in collective 2, all-gather of 64 bytes "
                "for rank 1, which left"));
}

TEST(ProcessFailures, ARankThatHangsIsNamed) {
  expect_ended(run_scenario("hang", 3, 1), 3, 1, 1, "for rank 1, which did not come within 400 ms");
}

TEST(ProcessFailures, AnExceptionBetweenGroupsEndsTheOthers) {
  const MpiRun run = run_scenario("exception", 2, 1);
  EXPECT_THAT(run.text, HasSubstr("lamina: not_found: planted: no such model"));
  EXPECT_THAT(run.text, HasSubstr("lamina: internal: rank 1 failed, and with it its group: an exception ended"));
}

TEST(ProcessFailures, ProcessesWithOtherNumbersOfRanksAreNamed) {
  const MpiRun run = run_scenario("unequal", 2, 1);
  EXPECT_THAT(run.text, HasSubstr("2 ranks in process 1, but 1 in process 0; start all alike"));
  EXPECT_THAT(run.text, HasSubstr("process 0 exits with 2"));
  EXPECT_THAT(run.text, HasSubstr("process 1 exits with 2"));
}

TEST(ProcessFailures, AKilledProcessIsNamedByAllSurvivors) {
  expect_ended(run_scenario("kill in a collective", 3, 1), 3, 1, 1,
               "device: rank 1 failed, and with it its group: process 1 (rank 1) is gone: no sign of life for 1 s", 1);
  expect_ended(run_scenario("kill in a round", 2, 2), 2, 2, 1,
               "device: rank 0 failed, and with it its group: process 0 (ranks 0..1) is gone: no sign of life for 1 s",
               0);
}

TEST(ProcessFailures, WithoutRecoveryMpirunEndsTheSurvivors) {
  EXPECT_NE(scenario("kill in a round", 2, 1, false).wait().exit_code, 0);
}

TEST(ProcessFailures, AnotherWorldGoesOn) {
  Mpirun other = scenario("long", 2, 1, false);
  expect_ended(run_scenario("kill in a collective", 2, 1), 2, 1, 1, "process 1 (rank 1) is gone", 1);
  const MpiRun lived = other.wait();
  EXPECT_EQ(lived.exit_code, 0) << lived.text;
}

}  // namespace
}  // namespace lamina::test
