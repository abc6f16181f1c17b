#include "engine/matrix_cell.h"

#include <algorithm>
#include <set>

#include "engine/config/compatibility.h"
#include "engine/micro_ranks.h"

namespace lamina::test {
namespace {

constexpr std::array<std::size_t, MatrixCell::kFactors> kLevels{4, 2, 2, 2, 3, 3, 3, 3};
constexpr std::array<std::size_t, 3> kResidents{0, 1, 1000};
constexpr std::array<std::size_t, 3> kChunks{1, 2, 5};
constexpr std::size_t kShardsAlone = 2;  // ranks of HSDP without sequence parallelism

EngineConfig config_of(const MatrixCell& cell) {
  const bool shards = cell.values[MatrixCell::hsdp] == 1;
  EngineConfig config;
  config.parallel.sizes = {.data = cell.values[MatrixCell::data] + 1,
                           .sequence = cell.values[MatrixCell::sequence] + 1,
                           .tensor = cell.values[MatrixCell::tensor] + 1,
                           .use_hsdp = shards,
                           .hsdp_shard = shards ? kShardsAlone : 0};
  config.enable_distributed_layerwise_offload = cell.values[MatrixCell::transfer] != MatrixCell::kept;
  config.parallel.dlo_use_allgather = cell.values[MatrixCell::transfer] == MatrixCell::gathered;
  config.dlo_resident_layers = kResidents[cell.values[MatrixCell::residents]];
  return config;
}

bool is_allowed(const MatrixCell& cell) {
  try {
    resolve(config_of(cell));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::incompatible) throw;
    return false;
  }
}

/// Whether no factor that has no effect is at other than its first value.
bool is_plain(const MatrixCell& cell) {
  const EffectiveParallelism effective = resolve(config_of(cell));
  const bool shards = cell.values[MatrixCell::hsdp] == 1;
  const bool streams = shards || effective.config.enable_distributed_layerwise_offload;
  const bool gathers = shards || effective.gathers_weights;
  return (streams || (cell.values[MatrixCell::residents] == 0 && cell.values[MatrixCell::slots] == 0)) &&
         (gathers || cell.values[MatrixCell::chunks] == 0);
}

using Pair = std::array<std::size_t, 4>;  // two factors and their values

std::vector<Pair> pairs_of(const MatrixCell& cell) {
  std::vector<Pair> pairs;
  for (std::size_t one = 0; one < MatrixCell::kFactors; ++one)
    for (std::size_t other = one + 1; other < MatrixCell::kFactors; ++other)
      pairs.push_back({one, cell.values[one], other, cell.values[other]});
  return pairs;
}

}  // namespace

EngineConfig MatrixCell::config(const std::filesystem::path& model) const {
  const EngineConfig of_cell = config_of(*this);
  EngineConfig config = micro_ranks(model, of_cell.parallel.sizes);
  config.parallel = of_cell.parallel;
  config.enable_distributed_layerwise_offload = of_cell.enable_distributed_layerwise_offload;
  config.dlo_resident_layers = of_cell.dlo_resident_layers;
  config.dlo_slots = values[slots] + 1;
  config.parallel.dlo_gather_chunks = kChunks[values[chunks]];
  return config;
}

std::string topology_name(const MatrixCell& cell) {
  return "dp" + std::to_string(cell.values[MatrixCell::data] + 1) + "_sp" +
         std::to_string(cell.values[MatrixCell::sequence] + 1) + "_tp" +
         std::to_string(cell.values[MatrixCell::tensor] + 1) + (cell.values[MatrixCell::hsdp] == 1 ? "_hsdp2" : "");
}

std::string to_string(const MatrixCell& cell) {
  static constexpr std::array kTransfers{"_kept", "_local", "_gather"};
  static constexpr std::array kResidentNames{"_r0", "_r1", "_rall"};
  return topology_name(cell) + kTransfers[cell.values[MatrixCell::transfer]] +
         kResidentNames[cell.values[MatrixCell::residents]] + "_slots" +
         std::to_string(cell.values[MatrixCell::slots] + 1) + "_chunks" +
         std::to_string(kChunks[cell.values[MatrixCell::chunks]]);
}

std::vector<MatrixCell> allowed_cells() {
  std::vector<MatrixCell> cells;
  MatrixCell cell;
  for (std::size_t factor = 0; factor < MatrixCell::kFactors;) {
    if (is_allowed(cell) && is_plain(cell)) cells.push_back(cell);
    // The next combination: the first factor counts fastest.
    for (factor = 0; factor < MatrixCell::kFactors && ++cell.values[factor] == kLevels[factor]; ++factor)
      cell.values[factor] = 0;
  }
  return cells;
}

std::vector<MatrixCell> pairwise_cover(const std::vector<MatrixCell>& cells) {
  std::set<Pair> open;
  for (const MatrixCell& cell : cells)
    for (const Pair& pair : pairs_of(cell)) open.insert(pair);
  const auto gain = [&](const MatrixCell& cell) {
    return std::ranges::count_if(pairs_of(cell), [&](const Pair& pair) { return open.contains(pair); });
  };
  std::vector<MatrixCell> cover;
  while (!open.empty()) {
    cover.push_back(*std::ranges::max_element(cells, {}, gain));
    for (const Pair& pair : pairs_of(cover.back())) open.erase(pair);
  }
  return cover;
}

}  // namespace lamina::test
