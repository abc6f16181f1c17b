#include "comm/launched_process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/expect_error.h"
#include "comm/rank_connector.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;

/// The environment of a launcher, while it lives.
class LaunchedProcesses : public ::testing::Test {
 protected:
  LaunchedProcesses() { clear(); }
  ~LaunchedProcesses() override { clear(); }

  static void set(const std::map<const char*, const char*>& variables) {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }

 private:
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_RANK",
                             "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"})
      ::unsetenv(name);
  }
};

TEST_F(LaunchedProcesses, AProcessByItselfIsNone) {
  EXPECT_FALSE(launched_process());
  set({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});  // a batch script
  EXPECT_FALSE(launched_process());
  expect_error(ErrorCode::unavailable, {}, [] { connect_processes({}); });
}

TEST_F(LaunchedProcesses, MpirunAndSrunTellTheirPlace) {
  set({{"PMIX_RANK", "5"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}});
  const auto srun = launched_process();
  ASSERT_TRUE(srun);
  EXPECT_EQ(srun->launcher, "srun");
  EXPECT_EQ(srun->index, 5U);
  EXPECT_EQ(srun->count, 8U);
  EXPECT_EQ(srun->index_on_node, 1U);
  set({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  const auto mpirun = launched_process();
  ASSERT_TRUE(mpirun);
  EXPECT_EQ(mpirun->launcher, "mpirun");
  EXPECT_EQ(mpirun->index, 2U);
  EXPECT_EQ(mpirun->count, 3U);
  EXPECT_EQ(mpirun->index_on_node, 0U);
}

TEST_F(LaunchedProcesses, ContradictionsAreNamed) {
  set({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  expect_error(ErrorCode::invalid_argument, {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=3"}, launched_process);
  set({{"OMPI_COMM_WORLD_SIZE", "3x"}});
  expect_error(ErrorCode::invalid_argument, {"OMPI_COMM_WORLD_SIZE=3x"}, launched_process);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  expect_error(ErrorCode::invalid_argument, {"OMPI_COMM_WORLD_SIZE is not"}, launched_process);
}

}  // namespace
}  // namespace lamina::test
