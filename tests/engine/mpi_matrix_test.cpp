// Must hold 1 under mpirun: combinations of parallelism and ways to bring weights, where ranks are in several
// processes.

#include <gtest/gtest.h>

#include "comm/process_ranks.h"
#include "engine/ranked_matrix.h"

namespace lamina::test {
namespace {

TEST(ProcessMatrix, EveryRequestEndsAsAlone) {
  std::vector<MatrixCell> cells = allowed_cells();
  std::erase_if(cells, [](const MatrixCell& cell) {
    return Topology(cell.config({}).parallel.sizes).world_size() != world().world_size();
  });
  const std::vector<MatrixRow> rows = rows_of(pairwise_cover(cells));
  ASSERT_FALSE(rows.empty());
  for (const MatrixRow& row : rows) expect_row_holds(row, shared_world());
}

}  // namespace
}  // namespace lamina::test
