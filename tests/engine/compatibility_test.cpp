#include "engine/config/compatibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/expect_error.h"
#include "test_data.h"

namespace lamina {
namespace {

using ::testing::Contains;
using testing::expect_error;
using ::testing::HasSubstr;

const std::filesystem::path kDocument = test_data::docs() / "compatibility.md";

/// Sets a feature, and the features without which it has no effect.
void set(EngineConfig& config, Feature feature) {
  switch (feature) {
    case Feature::data_parallel: config.parallel.sizes.data = 2; return;
    case Feature::sequence_parallel: config.parallel.sizes.sequence = 2; return;
    case Feature::tensor_parallel: config.parallel.sizes.tensor = 2; return;
    case Feature::hsdp: config.parallel.sizes.use_hsdp = true; return;
    case Feature::cpu_offload: config.parallel.enable_cpu_offload = true; return;
    case Feature::layerwise_offload: config.parallel.enable_layerwise_offload = true; return;
    case Feature::dlo: config.enable_distributed_layerwise_offload = true; return;
    case Feature::all_gather:
      set(config, Feature::dlo);
      config.parallel.dlo_use_allgather = true;
      return;
    case Feature::residents:
      set(config, Feature::dlo);
      config.dlo_resident_layers = 3;
      return;
    case Feature::residents_rejected:
      set(config, Feature::residents);
      config.parallel.dlo_resident_with_allgather = ResidentsWithAllGather::reject;
      return;
    case Feature::strict_waves:
      set(config, Feature::all_gather);
      config.parallel.dlo_wave_policy = WavePolicy::strict;
      return;
    case Feature::co_batching: config.parallel.max_concurrent_requests_per_replica = 4; return;
  }
}

EngineConfig with(std::initializer_list<Feature> features) {
  EngineConfig config;
  config.parallel.dlo_use_allgather = false;
  for (const Feature feature : features) set(config, feature);
  return config;
}

/// What `resolve` makes of two features: '.' both take effect, 'x' refused, 'o' one of them is overridden.
char outcome(Feature one, Feature other) {
  try {
    const EffectiveParallelism result = resolve(with({one, other}));
    for (const std::string& note : result.notes)
      if (note.find("overridden") != std::string::npos) return 'o';
    return '.';
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::incompatible) << error.message();
    return 'x';
  }
}

/// The matrix as the specification has it, below its diagonal. Columns as rows.
const std::vector<std::string> kExpected{
    "",             // data_parallel
    ".",            // sequence_parallel
    "..",           // tensor_parallel
    "x.x",          // hsdp
    "...x",         // cpu_offload
    "xxxxo",        // layerwise_offload
    "....oo",       // dlo
    "...xoo.",      // all_gather
    "....oo..",     // residents
    "....oo.x.",    // residents_rejected
    "...xoo...x",   // strict_waves
    "...........",  // co_batching
};

class CompatibilityCell : public ::testing::TestWithParam<std::pair<std::size_t, std::size_t>> {};

TEST_P(CompatibilityCell, IsWhatValidationDoes) {
  const auto [row, column] = GetParam();
  const Feature one = static_cast<Feature>(row);
  const Feature other = static_cast<Feature>(column);
  const char expected = kExpected[row][column];
  EXPECT_EQ(outcome(one, other), expected);
  EXPECT_EQ(outcome(other, one), expected);
  EXPECT_EQ(judge(one, other).empty(), expected == '.');
}

TEST_P(CompatibilityCell, RefusesWithBothFlagsAndAWayOut) {
  const auto [row, column] = GetParam();
  if (kExpected[row][column] != 'x') return;
  const Feature one = static_cast<Feature>(row);
  const Feature other = static_cast<Feature>(column);
  const Cell cell = judge(one, other).front();
  ASSERT_FALSE(cell.way_out.empty());
  EXPECT_THAT(std::string(cell.way_out), HasSubstr("--"));
  const auto flag = [](Feature feature) { return std::string(features()[static_cast<std::size_t>(feature)].flag); };
  expect_error(ErrorCode::incompatible, {flag(cell.first), flag(cell.second), std::string(cell.way_out)}, [&] {
    resolve(with({one, other}));
  });
}

std::vector<std::pair<std::size_t, std::size_t>> all_pairs() {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t row = 0; row < kFeatureCount; ++row)
    for (std::size_t column = 0; column < row; ++column) pairs.emplace_back(row, column);
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(All, CompatibilityCell, ::testing::ValuesIn(all_pairs()), [](const auto& cell) {
  return "Row" + std::to_string(cell.param.first) + "Column" + std::to_string(cell.param.second);
});

TEST(Compatibility, RowsStandInTheOrderOfTheirEnum) {
  for (std::size_t row = 0; row < kFeatureCount; ++row)
    EXPECT_EQ(static_cast<std::size_t>(features()[row].feature), row);
}

TEST(Compatibility, EachFeatureIsSetByItsFlagAlone) {
  for (const FeatureInfo& info : features()) {
    EXPECT_FALSE(info.is_set(EngineConfig{})) << info.flag;
    EXPECT_TRUE(info.is_set(with({info.feature}))) << info.flag;
  }
}

TEST(Compatibility, OffloadFlagsUnderDloAreReportedAsOverridden) {
  const EffectiveParallelism result =
      resolve(with({Feature::dlo, Feature::cpu_offload, Feature::layerwise_offload, Feature::data_parallel}));
  EXPECT_THAT(result.notes, Contains(HasSubstr("--enable-cpu-offload is overridden by "
                                               "--enable-distributed-layerwise-offload")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("--enable-layerwise-offload is overridden by "
                                               "--enable-distributed-layerwise-offload")));
  EXPECT_FALSE(result.config.parallel.enable_cpu_offload);
  EXPECT_FALSE(result.config.parallel.enable_layerwise_offload);
  EXPECT_TRUE(result.config.enable_distributed_layerwise_offload);
}

TEST(Compatibility, FlagsWithoutWhatTheyNeedHaveNoEffectAndSaySo) {
  EngineConfig config;
  config.dlo_resident_layers = 2;
  config.parallel.dlo_wave_policy = WavePolicy::strict;
  EXPECT_THAT(resolve(config).notes,
              ::testing::UnorderedElementsAre(
                  "--dlo-resident-layers has no effect without --enable-distributed-layerwise-offload",
                  "--dlo-wave-policy strict has no effect without --dlo-use-allgather"));
}

TEST(Compatibility, RunsNoCollectiveForAnOffloadGroupOfOne) {
  EXPECT_TRUE(resolve(with({Feature::all_gather, Feature::data_parallel})).gathers_weights);
  EXPECT_TRUE(resolve(with({Feature::all_gather, Feature::sequence_parallel})).gathers_weights);
  for (const EffectiveParallelism& result :
       {resolve(with({Feature::all_gather})), resolve(with({Feature::all_gather, Feature::tensor_parallel}))}) {
    EXPECT_FALSE(result.gathers_weights);
    EXPECT_THAT(result.notes, Contains(HasSubstr("no collective runs")));
  }
  EXPECT_FALSE(resolve(with({Feature::dlo, Feature::data_parallel})).gathers_weights);
}

TEST(Compatibility, AllRefusalsOfAConfigurationComeInOneError) {
  expect_error(ErrorCode::incompatible,
               {"--data-parallel-size and --use-hsdp", "--tensor-parallel-size and --use-hsdp",
                "--use-hsdp and --dlo-use-allgather"},
               [] {
                 resolve(with({Feature::data_parallel, Feature::tensor_parallel, Feature::hsdp, Feature::all_gather}));
               });
}

TEST(Compatibility, ChecksCounts) {
  expect_error(ErrorCode::invalid_argument, {"--text-encoder-tp-size 2", "expected 1, or --tensor-parallel-size 4"},
               [] { resolve({.parallel = {.sizes = {.tensor = 4}, .text_encoder_tp = 2}}); });
  expect_error(ErrorCode::invalid_argument, {"--max-concurrent-requests-per-replica 0", "at least 1"},
               [] { resolve({.parallel = {.max_concurrent_requests_per_replica = 0}}); });
  EXPECT_EQ(resolve({.parallel = {.sizes = {.tensor = 4}, .text_encoder_tp = 1}}).config.parallel.text_encoder_tp, 1u);
}

TEST(Compatibility, DocumentIsMadeFromTheTable) {
  if (std::getenv("LAMINA_WRITE_DOCS") != nullptr) std::ofstream(kDocument) << compatibility_document();
  std::ostringstream found;
  found << std::ifstream(kDocument).rdbuf();
  EXPECT_EQ(found.str(), compatibility_document());
}

}  // namespace
}  // namespace lamina
