#include <fmt/format.h>

#include "engine/config/compatibility.h"

namespace lamina {
namespace {

constexpr std::string_view kIntroduction =
    R"(# Which kinds of parallelism and offload go together

Made from the table that validation uses (`src/engine/config/compatibility_table.cpp`); the tests compare the two. To write
it anew: `LAMINA_WRITE_DOCS=1 build/dev/tests/engine/lamina_engine_tests --gtest_filter='Compatibility*'`.

A configuration is validated whole, before any device is touched. A *refused* pair ends the start-up with the sentence
below; what is *overridden* is reported and has no effect. All other pairs combine.

## Features

| | flag | what it does | has no effect without |
|---|---|---|---|
)";

/// "A" for the first feature, and so on.
char letter_of(Feature feature) {
  return static_cast<char>('A' + static_cast<int>(feature));
}

std::string word_for(Feature row, Feature column) {
  if (row == column) return "";
  const std::vector<Cell> cells = judge(row, column);
  if (cells.empty()) return "yes";
  return cells.front().verdict == Verdict::refused ? "**no**" : fmt::format("{} off", letter_of(cells.front().second));
}

std::string feature_rows() {
  std::string text;
  for (const FeatureInfo& info : features())
    text += fmt::format("| {} | `{}` | {} | {} |\n", letter_of(info.feature), info.flag, info.meaning,
                        info.needs ? std::string(1, letter_of(*info.needs)) : "");
  return text;
}

std::string matrix() {
  std::string head = "| |";
  std::string line = "|---|";
  std::string rows;
  for (const FeatureInfo& row : features()) {
    head += fmt::format(" {} |", letter_of(row.feature));
    line += "---|";
    rows += fmt::format("| {} |", letter_of(row.feature));
    for (const FeatureInfo& column : features()) rows += fmt::format(" {} |", word_for(row.feature, column.feature));
    rows += '\n';
  }
  return head + '\n' + line + '\n' + rows;
}

std::string sentences(Verdict verdict, std::string_view joint) {
  std::string text;
  for (const Cell& cell : compatibility_cells()) {
    if (cell.verdict != verdict) continue;
    text += fmt::format("* {}{}{}: {}", letter_of(cell.first), joint, letter_of(cell.second), cell.reason);
    text += cell.way_out.empty() ? ".\n" : fmt::format("; {}.\n", cell.way_out);
  }
  return text;
}

}  // namespace

std::string compatibility_document() {
  return fmt::format(
      "{}{}\n## Pairs\n\n\"X off\": X is overridden. A feature counts with those it needs.\n\n{}\n"
      "## Refused\n\n{}\n## Overridden\n\n{}\n## How they combine\n\n{}",
      kIntroduction, feature_rows(), matrix(), sentences(Verdict::refused, " with "),
      sentences(Verdict::overridden, " overrides "), sentences(Verdict::combine, " with "));
}

}  // namespace lamina
