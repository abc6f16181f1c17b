#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "comm/rank_connector.h"
#include "engine/matrix_cell.h"

namespace lamina::test {

/// Cells of one topology, which run one behind the other.
struct MatrixRow {
  std::string name;
  std::vector<MatrixCell> cells;
};

/// As GoogleTest shows it.
void PrintTo(const MatrixRow& row, std::ostream* out);

std::vector<MatrixRow> rows_of(const std::vector<MatrixCell>& cells);

/// Every cell serves the same requests; each ends with the bytes of its lone run on one device, or where ranks compute
/// it together, within 1e-4. The ranks are those of `connector`, which has as many; null: threads of this process.
void expect_row_holds(const MatrixRow& row, const std::shared_ptr<RankConnector>& connector = nullptr);

}  // namespace lamina::test
