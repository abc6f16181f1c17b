#include "pipelines/chat_prompt.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "pipelines/paths.h"

namespace lamina {
namespace {

using Ids = std::vector<std::int32_t>;

class ChatPromptTest : public ::testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::load(testing::tiny_shapes("tokenizer"));
};

TEST_F(ChatPromptTest, GivesTheReferencesIdsAndPads) {
  const Json fixtures = read_json_file(testing::flux2_fixture("fixtures.json"));
  for (const char* name : {"cfg128", "wide", "edit"}) {
    const auto expected = fixtures[name]["token_ids"].get<Ids>();
    const PromptTokens tokens = encode_chat_prompt(tokenizer_, fixtures[name]["prompt"].get<std::string>());
    EXPECT_EQ(tokens.real_count, expected.size()) << name;
    EXPECT_EQ(tokens.cut_count, 0U) << name;
    Ids padded = expected;
    padded.resize(512, 403);
    EXPECT_EQ(tokens.ids, padded) << name;
  }
}

TEST_F(ChatPromptTest, EmptyPromptIsTheBareFormat) {
  const PromptTokens tokens = encode_chat_prompt(tokenizer_, "", 16);
  const Ids expected = {404, 397, 198, 405, 198, 404, 401, 198, 406, 198, 198, 407, 198, 198, 403, 403};
  EXPECT_EQ(tokens.ids, expected);
  EXPECT_EQ(tokens.real_count, 14U);
}

TEST_F(ChatPromptTest, LongPromptIsCutAtTheEnd) {
  const std::string prompt(600, 'x');
  const Ids whole = tokenizer_.encode(render_chat_prompt(prompt));
  ASSERT_EQ(whole.size(), 614U);
  const PromptTokens tokens = encode_chat_prompt(tokenizer_, prompt);
  EXPECT_EQ(tokens.ids, Ids(whole.begin(), whole.begin() + 512));
  EXPECT_EQ(tokens.real_count, 512U);
  EXPECT_EQ(tokens.cut_count, 102U);
}

TEST_F(ChatPromptTest, RefusesAPromptThatIsNotUtf8) {
  testing::expect_error(ErrorCode::invalid_argument, {"the prompt", "byte 2"},
                        [&] { encode_chat_prompt(tokenizer_, "ab\xC3("); });
}

TEST_F(ChatPromptTest, RefusesATokenizerWithoutTheFormatsTokens) {
  const testing::TemporaryFolder folder;
  std::string text = read_text_file(testing::tiny_shapes("tokenizer/tokenizer.json"));
  const std::size_t position = text.find("\"<think>\"");
  ASSERT_NE(position, std::string::npos);
  folder.write("tokenizer.json", text.replace(position, 9, "\"<thinks>\""));
  folder.write("tokenizer_config.json", "{}");
  const Tokenizer other = Tokenizer::load(folder.path());
  testing::expect_error(ErrorCode::incompatible, {folder.path().string(), "'<think>'"},
                        [&] { encode_chat_prompt(other, "red"); });
}

}  // namespace
}  // namespace lamina
