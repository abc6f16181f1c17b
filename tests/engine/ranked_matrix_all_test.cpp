// Must hold 1: every allowed combination of parallelism and ways to bring weights.

#include <gtest/gtest.h>

#include "engine/ranked_matrix.h"

namespace lamina::test {
namespace {

class RankedMatrixRows : public ::testing::TestWithParam<MatrixRow> {};

INSTANTIATE_TEST_SUITE_P(AllCells, RankedMatrixRows, ::testing::ValuesIn(rows_of(allowed_cells())),
                         [](const auto& row) { return row.param.name; });

TEST_P(RankedMatrixRows, EveryRequestEndsAsAlone) {
  expect_row_holds(GetParam());
}

}  // namespace
}  // namespace lamina::test
