#include "pipelines/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/json.h"
#include "pipelines/paths.h"

namespace lamina {
namespace {

using Ids = std::vector<std::int32_t>;

class TokenizerTest : public ::testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::load(testing::tiny_shapes("tokenizer"));
};

TEST_F(TokenizerTest, GivesTheReferencesIds) {
  const Json fixtures = read_json_file(testing::flux2_fixture("fixtures.json"))["tokenizer"];
  ASSERT_GT(fixtures.size(), 10U);
  for (const Json& fixture : fixtures) {
    const auto text = fixture["text"].get<std::string>();
    EXPECT_EQ(tokenizer_.encode(text), fixture["ids"].get<Ids>()) << text;
  }
}

TEST_F(TokenizerTest, KnowsItsPadAndItsRange) {
  EXPECT_EQ(tokenizer_.pad_id(), 403);
  EXPECT_EQ(tokenizer_.id_count(), 408);
  EXPECT_TRUE(tokenizer_.has_added_token("<think>"));
  EXPECT_FALSE(tokenizer_.has_added_token("<think>x"));
  EXPECT_FALSE(tokenizer_.has_added_token("a"));
}

TEST_F(TokenizerTest, RefusesTextThatIsNotUtf8) {
  testing::expect_error(ErrorCode::invalid_argument, {"byte 3"}, [&] { tokenizer_.encode("red\xFF"); });
}

TEST_F(TokenizerTest, TakesLongTextsInLinearithmicTime) {
  const std::size_t length = std::size_t{1} << 18;
  EXPECT_EQ(tokenizer_.encode(std::string(length, 'x')), Ids(length, 87));
  std::string word;
  while (word.size() < length) word += "background";
  // "background" is b ack gr ound; see the case of three of them below.
  EXPECT_EQ(tokenizer_.encode(word).size(), word.size() / 10 * 4);
}

struct Case {
  const char* text;
  Ids ids;
};

/// Recorded from the package `tokenizers` 0.23.3 with the same folder.
const Case kCases[] = {
    {"a\015\012\015\012red\012\012  circle", {64, 201, 198, 201, 198, 286, 198, 198, 220, 353}},
    {"trailing   ", {83, 81, 64, 72, 75, 284, 70, 220, 220, 220}},
    {"\011\011red", {197, 197, 286}},
    {"red\302\240circle\343\200\200on", {286, 126, 254, 66, 351, 350, 159, 222, 222, 290}},
    {"x\342\200\250y \342\200\213 z", {87, 158, 222, 101, 88, 220, 158, 222, 233, 220, 89}},
    {"'S'lL'\305\277'Kx'", {6, 50, 6, 75, 43, 6, 129, 123, 6, 42, 87, 6}},
    {"it''s", {72, 83, 6, 6, 82}},
    {"<|im_start|>red<|im_end|>circle<think></think>", {404, 286, 405, 66, 351, 350, 406, 407}},
    {"<|im_start|red|>", {27, 91, 72, 76, 62, 82, 83, 360, 91, 286, 91, 29}},
    {"<<|im_end|>>", {27, 405, 29}},
    {"don't<|endoftext|> red", {67, 290, 6, 83, 403, 309}},
    {"a1b22c333 \302\275\342\205\247\331\243\302\262",
     {64, 16, 65, 17, 17, 66, 18, 18, 18, 220, 126, 121, 158, 227, 100, 149, 96, 126, 110}},
    {"\340\244\250\340\244\256\340\244\270\340\245\215\340\244\244\340\245\207 \340\271\204\340\270\227\340\270\242 "
     "\330\247\331\204\330\271\330\261\330\250\331\212\330\251",
     {156, 97,  101, 156, 97,  106, 156, 97,  116, 156, 98,  235, 156, 97,  97,  156, 98,  229, 220, 156, 117, 226,
      156, 116, 245, 156, 116, 95,  220, 148, 100, 149, 226, 148, 117, 148, 109, 148, 101, 149, 232, 148, 102}},
    {"\360\237\221\250\342\200\215\360\237\221\251\342\200\215\360\237\221\247\342\200\215\360\237\221\246\360\237\217"
     "\263\357\270\217\342\200\215\360\237\214\210 \342\235\244\357\270\217",
     {172, 253, 239, 101, 158, 222, 235, 172, 253, 239, 102, 158, 222, 235, 172, 253,
      239, 100, 158, 222, 235, 172, 253, 239, 99,  172, 253, 237, 111, 171, 116, 237,
      158, 222, 235, 172, 253, 234, 230, 220, 158, 251, 97,  171, 116, 237}},
    {"e\314\201\314\243 \341\204\222\341\205\241\341\206\253 K \303\205 \357\254\201",
     {157, 118, 117, 136, 223, 220, 169, 243, 250, 220, 42, 220, 127, 227, 220, 171, 105, 223}},
    {"red...\012\012\012blue!\077\015\012", {286, 13, 13, 13, 198, 198, 198, 65, 75, 307, 0, 30, 201, 198}},
    {" \012 \012 red", {220, 198, 220, 198, 309}},
    {"  \314\201a", {220, 220, 136, 223, 64}},
    {"\001\177", {189, 221}},
    {"backgroundbackgroundbackground", {65, 262, 266, 258, 65, 262, 266, 258, 65, 262, 266, 258}},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     {64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
      64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64}},
    {"<|im_start|><|im_start|>", {404, 404}},
};

TEST_F(TokenizerTest, AgreesWithAnIndependentImplementation) {
  for (const Case& expected : kCases) EXPECT_EQ(tokenizer_.encode(expected.text), expected.ids) << expected.text;
}

}  // namespace
}  // namespace lamina
