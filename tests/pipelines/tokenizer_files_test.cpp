#include "pipelines/tokenizer_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/expect_error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "pipelines/paths.h"
#include "pipelines/tokenizer.h"

namespace lamina {
namespace {

/// The demo model's tokenizer folder, to be changed and written elsewhere.
class TokenizerFilesTest : public ::testing::Test {
 protected:
  void write() const {
    folder_.write("tokenizer.json", tokenizer_.dump());
    folder_.write("tokenizer_config.json", config_.dump());
  }

  /// The same content as vocab.json, merges.txt and added_tokens.json.
  void write_separately() const {
    folder_.write("vocab.json", tokenizer_["model"]["vocab"].dump());
    std::string merges = "#version: 0.2\n";
    for (const Json& merge : tokenizer_["model"]["merges"])
      merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
    folder_.write("merges.txt", merges);
    Json added = Json::object();
    for (const Json& token : tokenizer_["added_tokens"]) added[token["content"].get<std::string>()] = token["id"];
    folder_.write("added_tokens.json", added.dump());
    folder_.write("tokenizer_config.json", config_.dump());
  }

  /// Reading fails, naming the file and the parts.
  void refused(ErrorCode code, const char* file, std::vector<std::string> parts) {
    write();
    parts.push_back((folder_.path() / file).string());
    testing::expect_error(code, parts, [&] { Tokenizer::load(folder_.path()); });
  }

  void refused_tokenizer(const char* patch, ErrorCode code, std::vector<std::string> parts) {
    const Json original = tokenizer_;
    tokenizer_.merge_patch(parse_json(patch, "patch"));
    refused(code, "tokenizer.json", std::move(parts));
    tokenizer_ = original;
  }

  void refused_config(const char* patch, ErrorCode code, std::vector<std::string> parts) {
    const Json original = config_;
    config_.merge_patch(parse_json(patch, "patch"));
    refused(code, "tokenizer_config.json", std::move(parts));
    config_ = original;
  }

  void expect_same_ids() const {
    const Tokenizer original = Tokenizer::load(testing::tiny_shapes("tokenizer"));
    const Tokenizer other = Tokenizer::load(folder_.path());
    const std::string text = "<|im_start|>a red circle<|im_end|> on the\r\nbackground 12 \u00E9<think>";
    EXPECT_EQ(other.encode(text), original.encode(text));
    EXPECT_EQ(other.pad_id(), original.pad_id());
    EXPECT_EQ(other.id_count(), original.id_count());
  }

  const testing::TemporaryFolder folder_;
  Json tokenizer_ = read_json_file(testing::tiny_shapes("tokenizer/tokenizer.json"));
  Json config_ = read_json_file(testing::tiny_shapes("tokenizer/tokenizer_config.json"));
};

TEST_F(TokenizerFilesTest, MergesMayBeStrings) {
  for (Json& merge : tokenizer_["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  write();
  expect_same_ids();
}

TEST_F(TokenizerFilesTest, SeparateFilesServeWithoutTokenizerJson) {
  write_separately();
  expect_same_ids();
}

TEST_F(TokenizerFilesTest, AddedTokensMayStandInTheConfiguration) {
  Json decoder = Json::object();
  for (const Json& token : tokenizer_["added_tokens"]) {
    Json entry = token;
    entry.erase("id");
    decoder[std::to_string(token["id"].get<int>())] = entry;
  }
  config_["added_tokens_decoder"] = decoder;
  write_separately();
  std::filesystem::remove(folder_.path() / "added_tokens.json");
  expect_same_ids();
}

TEST_F(TokenizerFilesTest, PadTokenMayBeDescribedOrDefault) {
  config_["pad_token"] = {{"content", "<|im_end|>"}, {"lstrip", false}};
  write();
  EXPECT_EQ(Tokenizer::load(folder_.path()).pad_id(), 405);
  config_.erase("pad_token");
  write();
  EXPECT_EQ(Tokenizer::load(folder_.path()).pad_id(), 403);
}

TEST_F(TokenizerFilesTest, ThePublishedSpellingsPass) {
  tokenizer_["post_processor"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}};
  tokenizer_["model"]["continuing_subword_prefix"] = nullptr;
  config_["padding_side"] = "right";
  config_["add_prefix_space"] = false;
  config_["add_bos_token"] = false;
  write();
  expect_same_ids();
}

TEST_F(TokenizerFilesTest, RefusesAnotherKindOfTokenizer) {
  constexpr ErrorCode incompatible = ErrorCode::incompatible;
  refused_tokenizer(R"({"model": {"type": "WordPiece"}})", incompatible, {"'model.type'", "WordPiece", "BPE"});
  refused_tokenizer(R"({"model": {"byte_fallback": true}})", incompatible, {"'model.byte_fallback'"});
  refused_tokenizer(R"({"model": {"ignore_merges": true}})", incompatible, {"'model.ignore_merges'"});
  refused_tokenizer(R"({"model": {"end_of_word_suffix": "</w>"}})", incompatible,
                    {"'model.end_of_word_suffix'", "</w>"});
  refused_tokenizer(R"({"model": {"unk_token": "<unk>"}})", incompatible, {"'model.unk_token'", "<unk>"});
  refused_tokenizer(R"({"model": {"dropout": 0.1}})", incompatible, {"'model.dropout'"});
  refused_tokenizer(R"({"normalizer": {"type": "NFKC"}})", incompatible, {"'normalizer.type'", "NFKC", "NFC"});
  refused_tokenizer(R"({"normalizer": null})", ErrorCode::not_found, {"'normalizer'"});
  refused_tokenizer(R"({"pre_tokenizer": {"type": "Whitespace"}})", incompatible, {"'pre_tokenizer'", "Whitespace"});
  refused_tokenizer(R"({"post_processor": {"single": []}})", incompatible, {"'post_processor'"});
}

TEST_F(TokenizerFilesTest, RefusesAnotherPattern) {
  tokenizer_["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = R"(\p{L}+|\p{N}{1,3})";
  refused(ErrorCode::incompatible, "tokenizer.json", {"'pre_tokenizer'", R"(\\p{L}+|)"});
}

TEST_F(TokenizerFilesTest, RefusesByteLevelWithItsOwnPatternOrPrefix) {
  const Json original = tokenizer_;
  tokenizer_["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = true;
  refused(ErrorCode::incompatible, "tokenizer.json", {"'pre_tokenizer'"});
  tokenizer_ = original;
  tokenizer_["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
  refused(ErrorCode::incompatible, "tokenizer.json", {"'pre_tokenizer'"});
}

TEST_F(TokenizerFilesTest, RefusesATemplateThatAddsTokens) {
  tokenizer_["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "<|im_end|>"}, {"type_id", 0}}}});
  refused(ErrorCode::incompatible, "tokenizer.json", {"'post_processor'"});
}

TEST_F(TokenizerFilesTest, RefusesBrokenVocabularies) {
  refused_tokenizer(R"({"model": {"vocab": {"a": -1}}})", ErrorCode::incompatible, {"'a'", "-1"});
  refused_tokenizer(R"({"model": {"vocab": {"a": 2147483647}}})", ErrorCode::incompatible, {"'a'", "2147483647"});
  refused_tokenizer(R"({"model": {"vocab": {"a": "0"}}})", ErrorCode::incompatible, {"'a'", "\"0\""});
  refused_tokenizer(R"({"model": {"vocab": {"a": null}}})", ErrorCode::incompatible, {"byte 0x61"});
  refused_tokenizer(R"({"model": {"vocab": null}})", ErrorCode::not_found, {"'model.vocab'"});
  refused_tokenizer(R"({"model": {"vocab": []}})", ErrorCode::incompatible, {"'model.vocab'"});
}

TEST_F(TokenizerFilesTest, RefusesBrokenMerges) {
  refused_tokenizer(R"({"model": {"merges": null}})", ErrorCode::not_found, {"'model.merges'"});
  refused_tokenizer(R"({"model": {"merges": "a b"}})", ErrorCode::incompatible, {"'model.merges'"});
  refused_tokenizer(R"({"model": {"merges": ["n d", "a b c"]}})", ErrorCode::corrupt, {"'model.merges[1]'", "a b c"});
  refused_tokenizer(R"({"model": {"merges": [["n"]]}})", ErrorCode::corrupt, {"'model.merges[0]'"});
  refused_tokenizer(R"({"model": {"merges": [["n", 5]]}})", ErrorCode::corrupt, {"'model.merges[0]'"});
  refused_tokenizer(R"({"model": {"merges": ["q q"]}})", ErrorCode::corrupt, {"merge 0", "'qq'"});
}

TEST_F(TokenizerFilesTest, RefusesAddedTokensWithRulesOrOtherIds) {
  const auto refused_token = [&](const char* field, const Json& value, ErrorCode code, std::vector<std::string> parts) {
    const Json original = tokenizer_;
    tokenizer_["added_tokens"][2][field] = value;
    parts.push_back("added_tokens");
    refused(code, "tokenizer.json", std::move(parts));
    tokenizer_ = original;
  };
  refused_token("lstrip", true, ErrorCode::incompatible, {"'added_tokens[2]'", "'lstrip'"});
  refused_token("normalized", true, ErrorCode::incompatible, {"'normalized'"});
  refused_token("content", "", ErrorCode::incompatible, {"'content'", "empty"});
  refused_token("id", -5, ErrorCode::incompatible, {"'id'", "-5"});
}

TEST_F(TokenizerFilesTest, RefusesContradictingIds) {
  config_["added_tokens_decoder"] = {{"77", {{"content", "<think>"}}}};
  refused(ErrorCode::incompatible, "tokenizer_config.json", {"'<think>'", "77", "406"});
  config_["added_tokens_decoder"] = {{"7x", {{"content", "<new>"}}}};
  refused(ErrorCode::incompatible, "tokenizer_config.json", {"'added_tokens_decoder.7x'"});
}

TEST_F(TokenizerFilesTest, RefusesOtherSettings) {
  refused_config(R"({"padding_side": "left"})", ErrorCode::not_implemented, {"'padding_side'", "left", "right"});
  refused_config(R"({"truncation_side": "left"})", ErrorCode::not_implemented, {"'truncation_side'"});
  refused_config(R"({"add_prefix_space": true})", ErrorCode::incompatible, {"'add_prefix_space'"});
  refused_config(R"({"add_bos_token": true})", ErrorCode::incompatible, {"'add_bos_token'"});
  refused_config(R"({"pad_token": "<pad>"})", ErrorCode::incompatible, {"'pad_token'", "<pad>"});
}

TEST_F(TokenizerFilesTest, PaddingSideOfTokenizerJsonCountsWhereTheConfigurationIsSilent) {
  tokenizer_["padding"] = {{"direction", "Left"}};
  refused(ErrorCode::not_implemented, "tokenizer.json", {"'padding.direction'", "Left"});
  config_["padding_side"] = "right";
  write();
  expect_same_ids();
}

TEST_F(TokenizerFilesTest, NamesMissingAndBrokenFiles) {
  const auto load = [&] { Tokenizer::load(folder_.path()); };
  testing::expect_error(ErrorCode::not_found, {"tokenizer_config.json"}, load);
  folder_.write("tokenizer_config.json", config_.dump());
  testing::expect_error(ErrorCode::not_found, {"tokenizer.json", "vocab.json"}, load);
  folder_.write("tokenizer.json", tokenizer_.dump().substr(0, 5000));
  testing::expect_error(ErrorCode::corrupt, {"tokenizer.json"}, load);
}

TEST_F(TokenizerFilesTest, ChecksSeparateFiles) {
  const auto load = [&] { Tokenizer::load(folder_.path()); };
  write_separately();
  folder_.write("merges.txt", "#version: 0.2\r\nn d\r\n\r\nbroken\r\n");
  testing::expect_error(ErrorCode::corrupt, {"merges.txt", "line 4", "broken"}, load);
  std::filesystem::remove(folder_.path() / "merges.txt");
  testing::expect_error(ErrorCode::not_found, {"merges.txt"}, load);
  config_["tokenizer_class"] = "LlamaTokenizer";
  write_separately();
  testing::expect_error(ErrorCode::incompatible, {"'tokenizer_class'", "LlamaTokenizer"}, load);
}

}  // namespace
}  // namespace lamina
