#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/ranks/ranked_setup.h"

namespace lamina::test {

/// One way to spread the micro transformer over ranks and to bring its weights, by the index of each factor's value.
struct MatrixCell {
  enum Factor { data, sequence, tensor, hsdp, transfer, residents, slots, chunks };
  static constexpr std::size_t kFactors = 8;
  enum Transfer : std::size_t { kept, local, gathered };

  std::array<std::size_t, kFactors> values{};

  bool operator==(const MatrixCell&) const = default;
  EngineConfig config(const std::filesystem::path& model) const;
  /// Whether ranks compute a sample together: sums over other places are rounded otherwise.
  bool divides_samples() const { return values[sequence] > 0 || values[tensor] > 0; }
};

/// "dp2_sp2_tp1_gather_r1_slots3_chunks5".
std::string to_string(const MatrixCell& cell);
/// "dp2_sp2_tp1": cells that have it in common differ in how weights come.
std::string topology_name(const MatrixCell& cell);

/// All combinations that the compatibility matrix allows; of those that differ in what has no effect, one.
std::vector<MatrixCell> allowed_cells();

/// Few of the cells, such that any two values of two factors that meet in one of `cells` meet in one of these.
std::vector<MatrixCell> pairwise_cover(const std::vector<MatrixCell>& cells);

}  // namespace lamina::test
