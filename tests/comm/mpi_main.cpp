// The main function of test programs that mpirun runs: all processes run the same tests in the same order.
// LAMINA_TEST_RANKS: ranks of each process. LAMINA_TEST_GPUS: on GPUs.

#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/launched_process.h"
#include "comm/process_ranks.h"

namespace lamina::test {
namespace {

std::shared_ptr<RankConnector>& connector() {
  static std::shared_ptr<RankConnector> instance;
  return instance;
}

}  // namespace

RankConnector& world() {
  return *connector();
}

const std::shared_ptr<RankConnector>& shared_world() {
  return connector();
}

}  // namespace lamina::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* ranks = std::getenv("LAMINA_TEST_RANKS");
  lamina::ProcessOptions options{.ranks_per_process = ranks == nullptr ? 1U : std::strtoul(ranks, nullptr, 10)};
  const auto process = lamina::launched_process();
  if (process && std::getenv("LAMINA_TEST_GPUS") != nullptr)
    options.first_gpu = static_cast<int>(process->index_on_node * options.ranks_per_process);
  lamina::test::connector() = lamina::connect_processes(options);
  const int result = RUN_ALL_TESTS();
  lamina::test::connector().reset();
  return result;
}
