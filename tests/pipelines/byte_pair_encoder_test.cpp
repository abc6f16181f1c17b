#include "pipelines/byte_pair_encoder.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

using Ids = std::vector<std::int32_t>;

/// All bytes, with their own value as id, and "ab" = 300, "bc" = 301, "abc" = 302, "aa" = 303, "aaaa" = 304.
Vocabulary vocabulary() {
  Vocabulary tokens = {{"ab", 300}, {"bc", 301}, {"abc", 302}, {"aa", 303}, {"aaaa", 304}};
  char32_t stand_in = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    std::string token;
    append_utf8(printable ? byte : stand_in++, token);
    tokens[token] = static_cast<std::int32_t>(byte);
  }
  return tokens;
}

Ids encode(const BytePairEncoder& encoder, std::string_view piece) {
  Ids ids;
  encoder.encode(piece, ids);
  return ids;
}

TEST(BytePairEncoder, BytesWithoutMergesAreThemselves) {
  const BytePairEncoder encoder(vocabulary(), {}, "merges");
  std::string bytes;
  Ids expected;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.push_back(static_cast<char>(byte));
    expected.push_back(byte);
  }
  EXPECT_EQ(encode(encoder, bytes), expected);
  EXPECT_EQ(encode(encoder, ""), Ids{});
}

TEST(BytePairEncoder, LowerRankGoesFirst) {
  const BytePairEncoder ab_first(vocabulary(), {{"a", "b"}, {"b", "c"}}, "merges");
  EXPECT_EQ(encode(ab_first, "abc"), (Ids{300, 'c'}));
  const BytePairEncoder bc_first(vocabulary(), {{"b", "c"}, {"a", "b"}, {"a", "bc"}}, "merges");
  EXPECT_EQ(encode(bc_first, "abcab"), (Ids{302, 300}));
}

TEST(BytePairEncoder, LeftmostGoesFirstAmongEquals) {
  const BytePairEncoder encoder(vocabulary(), {{"a", "a"}, {"aa", "aa"}}, "merges");
  EXPECT_EQ(encode(encoder, "aaa"), (Ids{303, 'a'}));
  EXPECT_EQ(encode(encoder, "aaaaaaa"), (Ids{304, 303, 'a'}));
}

TEST(BytePairEncoder, RefusesContradictions) {
  const auto refused = [](const std::vector<TokenPair>& merges, const char* part) {
    testing::expect_error(ErrorCode::corrupt, {"t.json", "merge 1", part},
                          [&] { BytePairEncoder(vocabulary(), merges, "t.json"); });
  };
  refused({{"a", "b"}, {"a", "xy"}}, "'xy'");
  refused({{"a", "b"}, {"a", "c"}}, "'ac'");
  refused({{"a", "b"}, {"a", "b"}}, "twice");
}

TEST(BytePairEncoder, NeedsAllBytes) {
  Vocabulary tokens = vocabulary();
  tokens.erase("A");
  testing::expect_error(ErrorCode::incompatible, {"t.json", "byte 0x41"},
                        [&] { BytePairEncoder(tokens, {}, "t.json"); });
}

}  // namespace
}  // namespace lamina
