// Must hold 1: every allowed combination of parallelism and ways to bring weights. Here a pairwise cover of them; all
// of them in ranked_matrix_all_test.cpp.

#include "engine/ranked_matrix.h"

#include <gtest/gtest.h>

#include <set>

namespace lamina::test {
namespace {

TEST(RankedMatrix, CoversEveryPairOfValuesThatMay) {
  const std::vector<MatrixCell> all = allowed_cells();
  const std::vector<MatrixCell> cover = pairwise_cover(all);
  const auto pairs = [](const std::vector<MatrixCell>& cells) {
    std::set<std::array<std::size_t, 4>> seen;
    for (const MatrixCell& cell : cells)
      for (std::size_t i = 0; i < MatrixCell::kFactors; ++i)
        for (std::size_t j = i + 1; j < MatrixCell::kFactors; ++j) seen.insert({i, cell.values[i], j, cell.values[j]});
    return seen;
  };
  EXPECT_EQ(pairs(cover), pairs(all));
  EXPECT_GT(all.size(), 500U);
  EXPECT_LT(cover.size(), 40U);
}

class RankedMatrixRows : public ::testing::TestWithParam<MatrixRow> {};

INSTANTIATE_TEST_SUITE_P(PairwiseCover, RankedMatrixRows, ::testing::ValuesIn(rows_of(pairwise_cover(allowed_cells()))),
                         [](const auto& row) { return row.param.name; });

TEST_P(RankedMatrixRows, EveryRequestEndsAsAlone) {
  expect_row_holds(GetParam());
}

}  // namespace
}  // namespace lamina::test
