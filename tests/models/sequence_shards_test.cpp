#include "models/sequence_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

TEST(SequenceShards, AreChunksInTheOrderOfTheRanks) {
  const SequenceShards shards(10, 3, 1);
  EXPECT_EQ(shards.chunk(), 4);
  EXPECT_EQ(shards.padded_tokens(), 12);
  EXPECT_THAT(shards.all(), ElementsAre(TokenRange{0, 4}, TokenRange{4, 8}, TokenRange{8, 10}));
  EXPECT_EQ(shards.own(), (TokenRange{4, 8}));
}

TEST(SequenceShards, OfOneRankAreTheSequence) {
  const SequenceShards shards(7, 1, 0);
  EXPECT_EQ(shards.chunk(), 7);
  EXPECT_THAT(shards.all(), ElementsAre(TokenRange{0, 7}));
}

TEST(SequenceShards, MayBeEmptyAtTheEnd) {
  EXPECT_THAT(SequenceShards(5, 4, 3).all(),
              ElementsAre(TokenRange{0, 2}, TokenRange{2, 4}, TokenRange{4, 5}, TokenRange{5, 5}));
}

TEST(SequenceShards, CoverEveryTokenOnce) {
  for (std::int64_t tokens = 1; tokens < 40; ++tokens)
    for (std::size_t ranks = 1; ranks < 10; ++ranks) {
      const SequenceShards shards(tokens, ranks, 0);
      std::int64_t next = 0;
      for (const TokenRange& range : shards.all()) {
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), shards.chunk());
        next = range.end;
      }
      EXPECT_EQ(next, tokens);
      EXPECT_LT(shards.padded_tokens() - tokens, static_cast<std::int64_t>(ranks));
    }
}

TEST(SequenceShards, KnowTheirGroup) {
  expect_error(ErrorCode::internal, {"rank 2 of 2"}, [] { SequenceShards(5, 2, 2); });
  expect_error(ErrorCode::internal, {"0 tokens"}, [] { SequenceShards(0, 2, 0); });
}

TEST(TokenRange, IsCutToAPartOfItself) {
  EXPECT_EQ((TokenRange{2, 6}.within({4, 9})), (TokenRange{4, 6}));
  EXPECT_EQ((TokenRange{2, 6}.within({0, 9})), (TokenRange{2, 6}));
  EXPECT_EQ((TokenRange{2, 6}.within({7, 9})), (TokenRange{6, 6}));
  EXPECT_EQ((TokenRange{2, 6}.within({0, 1})), (TokenRange{2, 2}));
}

}  // namespace
}  // namespace lamina
