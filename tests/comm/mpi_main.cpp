// The main function of test programs that mpirun runs: all processes run the same tests in the same order.
// LAMINA_TEST_RANKS: ranks of each process.

#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/process_ranks.h"

namespace lamina::test {
namespace {

std::unique_ptr<RankConnector>& connector() {
  static std::unique_ptr<RankConnector> instance;
  return instance;
}

}  // namespace

RankConnector& world() {
  return *connector();
}

}  // namespace lamina::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* ranks = std::getenv("LAMINA_TEST_RANKS");
  lamina::test::connector() =
      lamina::connect_processes({.ranks_per_process = ranks == nullptr ? 1U : std::strtoul(ranks, nullptr, 10)});
  const int result = RUN_ALL_TESTS();
  lamina::test::connector().reset();
  return result;
}
