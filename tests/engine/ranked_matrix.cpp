#include "engine/ranked_matrix.h"

#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "engine/engine_fixture.h"
#include "engine/micro_ranks.h"
#include "engine/ranks/gathered_run.h"

namespace lamina::test {
namespace {

constexpr double kTolerance = 1e-4;

/// They differ in steps and size; one has an odd number of tokens. Of more than two replicas some are idle.
std::vector<GenerateRequest> matrix_requests() {
  return {micro_request(1, 3, 2), micro_request(2, 2, 1)};
}

void expect_outcome(const MatrixCell& cell, const RankedOutcome& outcome, const std::vector<float>& expected) {
  ASSERT_TRUE(outcome.result) << (outcome.failure ? outcome.failure->message : "no result and no reason");
  const std::vector<float>& latents = tensor_of(*outcome.result, "latents").values;
  if (cell.divides_samples())
    EXPECT_LE(largest_difference(latents, expected), kTolerance);
  else
    EXPECT_EQ(latents, expected);
}

void expect_cell_holds(const MatrixCell& cell, const std::filesystem::path& model,
                       const std::vector<std::vector<float>>& expected,
                       const std::shared_ptr<RankConnector>& connector) {
  std::vector<std::string> notes;
  const RankedSetup setup = ranked_setup(cell.config(model), notes, connector);
  const RankedRun run = run_on_ranks(setup, matrix_requests());
  const RankedRun all = gather_run(*setup.connector, run);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    EXPECT_FALSE(all.outcomes[i].failure) << all.outcomes[i].failure->message;
    if (run.local.contains(all.outcomes[i].rank)) expect_outcome(cell, run.outcomes[i], expected[i]);
  }
  for (const RankReport& rank : all.ranks)
    EXPECT_EQ(rank.totals.gathered_bytes > 0, setup.weights.has_value() && cell.values[MatrixCell::residents] + 1 < 3);
}

}  // namespace

void PrintTo(const MatrixRow& row, std::ostream* out) {
  *out << row.name << ", " << row.cells.size() << " cells";
}

std::vector<MatrixRow> rows_of(const std::vector<MatrixCell>& cells) {
  std::map<std::string, MatrixRow> rows;
  for (const MatrixCell& cell : cells) {
    MatrixRow& row = rows[topology_name(cell)];
    row.name = topology_name(cell);
    row.cells.push_back(cell);
  }
  std::vector<MatrixRow> result;
  for (auto& [name, row] : rows) result.push_back(std::move(row));
  return result;
}

void expect_row_holds(const MatrixRow& row, const std::shared_ptr<RankConnector>& connector) {
  const ScratchFolder scratch;
  const std::filesystem::path model = micro_transformer(scratch.path());
  std::vector<std::vector<float>> expected;
  for (const GenerateRequest& request : matrix_requests()) expected.push_back(lone_latents(model, request));
  for (const MatrixCell& cell : row.cells) {
    SCOPED_TRACE(to_string(cell));
    expect_cell_holds(cell, model, expected, connector);
  }
}

}  // namespace lamina::test
