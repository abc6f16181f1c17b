#include "models/head_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "comm/local_ranks.h"
#include "models/device_run.h"

namespace lamina::test {
namespace {

using ::testing::Each;
using ::testing::Eq;

constexpr std::int64_t kShare = 2;  // features of a rank's heads

/// What stands in q (group 0), k or v of a token.
float value_of(std::int64_t token, std::int64_t group, std::int64_t feature) {
  return static_cast<float>(1000 * token + 100 * group + feature);
}

class HeadExchangeTest : public testing::TestWithParam<std::tuple<std::size_t, std::int64_t>> {
 protected:
  std::size_t ranks() const { return std::get<0>(GetParam()); }
  std::int64_t tokens() const { return std::get<1>(GetParam()); }
  std::int64_t width() const { return static_cast<std::int64_t>(ranks()) * kShare; }

  std::vector<float> qkv_of(const TokenRange& range) const {
    std::vector<float> values;
    for (std::int64_t token = range.begin; token < range.end; ++token)
      for (std::int64_t group = 0; group < 3; ++group)
        for (std::int64_t feature = 0; feature < width(); ++feature) values.push_back(value_of(token, group, feature));
    return values;
  }

  /// q | k | v of all tokens for the heads of one rank.
  std::vector<float> heads_of(std::size_t rank) const {
    std::vector<float> values;
    for (std::int64_t token = 0; token < tokens(); ++token)
      for (std::int64_t group = 0; group < 3; ++group)
        for (std::int64_t i = 0; i < kShare; ++i)
          values.push_back(value_of(token, group, static_cast<std::int64_t>(rank) * kShare + i));
    return values;
  }

  /// The first group, of all heads.
  std::vector<float> tokens_of(const TokenRange& range) const {
    std::vector<float> values;
    for (std::int64_t token = range.begin; token < range.end; ++token)
      for (std::int64_t feature = 0; feature < width(); ++feature) values.push_back(value_of(token, 0, feature));
    return values;
  }
};

INSTANTIATE_TEST_SUITE_P(All, HeadExchangeTest,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 2, 5, 8, 12)),
                         [](const auto& sizes) {
                           return "ranks" + std::to_string(std::get<0>(sizes.param)) + "_tokens" +
                                  std::to_string(std::get<1>(sizes.param));
                         });

TEST_P(HeadExchangeTest, GivesAllTokensOfARanksHeadsAndTakesThemBack) {
  const auto errors = run_ranks(ranks(), [&](LocalRank& mine) {
    DeviceRun run;
    const SequenceShards shards(tokens(), ranks(), mine.rank);
    const TokenRange own = shards.own();
    Arena measuring;
    const HeadExchange planned(*mine.communicator, shards, width(), DType::f32, measuring);
    const DeviceBuffer memory = run.device().allocate(measuring.peak_bytes(), "exchange");
    const DeviceBuffer rows = run.device().allocate(kMiB, "rows");
    run.poison(memory);
    Arena arena(memory.data(), memory.size_bytes());
    Arena row_arena(rows.data(), rows.size_bytes());
    const HeadExchange exchange(*mine.communicator, shards, width(), DType::f32, arena);
    const TensorView qkv = row_arena.take(DType::f32, {own.size(), 3 * width()});
    const TensorView output = row_arena.take(DType::f32, {own.size(), width()});
    if (!own.empty()) run.upload(qkv_of(own), qkv);

    ops::OpContext context(run.stream(), nullptr, 0);
    const TensorView heads = exchange.to_heads(qkv, context);
    EXPECT_EQ(run.download(heads), heads_of(mine.rank));
    const TensorView attended = exchange.attended();
    std::vector<float> first_group;
    for (std::int64_t token = 0; token < tokens(); ++token)
      for (std::int64_t i = 0; i < kShare; ++i)
        first_group.push_back(value_of(token, 0, static_cast<std::int64_t>(mine.rank) * kShare + i));
    run.upload(first_group, attended);
    exchange.to_tokens(output, context);
    run.stream().synchronize();
    if (!own.empty()) {
      EXPECT_EQ(run.download(output), tokens_of(own));
    }
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

}  // namespace
}  // namespace lamina::test
