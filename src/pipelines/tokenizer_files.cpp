#include "pipelines/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/config_reader.h"
#include "base/error.h"
#include "base/file.h"
#include "pipelines/pre_tokenizer.h"

namespace lamina {
namespace {

constexpr std::int64_t kMaxTokenId = std::numeric_limits<std::int32_t>::max() - 1;

bool holds(const Json& object, const char* field, const Json& expected) {
  const auto found = object.find(field);
  return found != object.end() && *found == expected;
}

bool is_qwen_split(const Json& part) {
  return holds(part, "type", "Split") && holds(part, "pattern", {{"Regex", kQwenPattern}}) &&
         holds(part, "behavior", "Isolated") && holds(part, "invert", false);
}

bool is_byte_level(const Json& part) {
  return holds(part, "type", "ByteLevel") && holds(part, "add_prefix_space", false) && holds(part, "use_regex", false);
}

void check_pre_tokenizer(const ConfigReader& tokenizer) {
  const ConfigReader pre_tokenizer = tokenizer.object("pre_tokenizer");
  const auto parts = pre_tokenizer.json().find("pretokenizers");
  const bool known = holds(pre_tokenizer.json(), "type", "Sequence") && parts != pre_tokenizer.json().end() &&
                     parts->is_array() && parts->size() == 2 && is_qwen_split((*parts)[0]) &&
                     is_byte_level((*parts)[1]);
  if (!known)
    tokenizer.reject("pre_tokenizer", fmt::format("found {}; a Sequence of Split by Qwen's pattern ({}) and ByteLevel "
                                                  "without prefix space and pattern is expected",
                                                  excerpt(pre_tokenizer.json()), kQwenPattern));
}

/// Post-processors that add no token are legal.
void check_post_processor(const ConfigReader& tokenizer) {
  if (!tokenizer.has("post_processor")) return;
  const Json processor = tokenizer.object("post_processor").json();
  const Json text_alone = Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}});
  const bool adds_nothing = holds(processor, "type", "ByteLevel") ||
                            (holds(processor, "type", "TemplateProcessing") && holds(processor, "single", text_alone));
  if (!adds_nothing)
    tokenizer.reject("post_processor", fmt::format("found {}; ByteLevel or a template that adds no token is expected",
                                                   excerpt(processor)));
}

void require_off(const ConfigReader& config, std::string_view field) {
  if (config.boolean_or(field, false)) config.reject(field, "found true; false is expected");
}

void check_model(const ConfigReader& model) {
  if (model.text("type") != "BPE")
    model.reject("type", fmt::format("found '{}'; 'BPE' is expected", model.text("type")));
  for (const std::string_view field : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.text_or(field, "").empty())
      model.reject(field, fmt::format("found '{}'; none is expected", model.text(field)));
  for (const std::string_view field : {"byte_fallback", "ignore_merges"}) require_off(model, field);
  if (model.number_or("dropout", 0) != 0) model.reject("dropout", "none is expected");
}

Vocabulary read_vocabulary(const Json& object, std::string_view source) {
  if (!object.is_object())
    fail(ErrorCode::incompatible, "{}: found {}; an object of token ids is expected", source, excerpt(object));
  Vocabulary vocabulary;
  vocabulary.reserve(object.size());
  for (const auto& [token, id] : object.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxTokenId))
      fail(ErrorCode::incompatible, "{}: token '{}': found {}; an id from 0 to {} is expected", source, token,
           excerpt(id), kMaxTokenId);
    vocabulary.emplace(token, id.get<std::int32_t>());
  }
  return vocabulary;
}

/// The two parts of "a b", or nullopt where the line is something else.
std::optional<TokenPair> split_merge(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) return std::nullopt;
  if (line.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return TokenPair(line.substr(0, space), line.substr(space + 1));
}

TokenPair read_merge(const Json& entry, std::size_t rank, std::string_view source) {
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string())
    return {entry[0].get<std::string>(), entry[1].get<std::string>()};
  std::optional<TokenPair> merge;
  if (entry.is_string()) merge = split_merge(entry.get_ref<const std::string&>());
  if (!merge)
    fail(ErrorCode::corrupt, "{}: field 'model.merges[{}]': found {}; two tokens are expected", source, rank,
         excerpt(entry));
  return *std::move(merge);
}

void read_merges(const ConfigReader& model, TokenizerFiles& files) {
  if (!model.has("merges")) fail(ErrorCode::not_found, "{}: field 'model.merges' is missing", files.source);
  const Json& merges = model.json()["merges"];
  if (!merges.is_array()) model.reject("merges", "a list is expected");
  for (const Json& entry : merges) files.merges.push_back(read_merge(entry, files.merges.size(), files.source));
}

std::vector<TokenPair> read_merges_text(const std::filesystem::path& file) {
  const std::string text = read_text_file(file);
  std::vector<TokenPair> merges;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++line_number;
    const bool is_header = line_number == 1 && line.starts_with("#version");
    if (line.empty() || is_header) continue;
    std::optional<TokenPair> merge = split_merge(line);
    if (!merge)
      fail(ErrorCode::corrupt, "{}: line {}: found '{}'; two tokens are expected", file.string(), line_number, line);
    merges.push_back(*std::move(merge));
  }
  return merges;
}

/// Adds a token unless it is known; an id other than the known one is a contradiction.
void add_token(TokenizerFiles& files, AddedToken token, std::string_view source) {
  const auto same = std::find_if(files.added_tokens.begin(), files.added_tokens.end(),
                                 [&](const AddedToken& known) { return known.content == token.content; });
  const auto in_vocabulary = files.vocabulary.find(token.content);
  const bool is_known = same != files.added_tokens.end();
  if ((is_known && same->id != token.id) ||
      (in_vocabulary != files.vocabulary.end() && in_vocabulary->second != token.id))
    fail(ErrorCode::incompatible, "{}: the added token '{}' has the id {}, but {} in {}", source, token.content,
         token.id, is_known ? same->id : in_vocabulary->second, files.source);
  if (!is_known) files.added_tokens.push_back(std::move(token));
}

/// An added token with its matching rules, as tokenizer.json and tokenizer_config.json describe it.
AddedToken read_added_token(const ConfigReader& entry, std::int32_t id) {
  for (const std::string_view rule : {"single_word", "lstrip", "rstrip", "normalized"}) require_off(entry, rule);
  AddedToken token{entry.text("content"), id};
  if (token.content.empty()) entry.reject("content", "an added token must not be empty");
  return token;
}

void read_added_tokens(const ConfigReader& tokenizer, TokenizerFiles& files) {
  if (!tokenizer.has("added_tokens")) return;
  const Json& entries = tokenizer.json()["added_tokens"];
  if (!entries.is_array()) tokenizer.reject("added_tokens", "a list is expected");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ConfigReader entry(entries[i], fmt::format("{}: field 'added_tokens[{}]'", files.source, i));
    const auto id = static_cast<std::int32_t>(entry.integer("id", 0, kMaxTokenId));
    add_token(files, read_added_token(entry, id), files.source);
  }
}

void read_added_tokens_decoder(const ConfigReader& config, TokenizerFiles& files) {
  if (!config.has("added_tokens_decoder")) return;
  const ConfigReader decoder = config.object("added_tokens_decoder");
  for (const auto& [key, unused] : decoder.json().items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size() || id < 0 || id > kMaxTokenId)
      decoder.reject(key, fmt::format("an id from 0 to {} is expected as the field's name", kMaxTokenId));
    add_token(files, read_added_token(decoder.object(key), id), config.source());
  }
}

void require_right(const ConfigReader& config, std::string_view field, const std::string& side) {
  if (side == "right" || side == "Right") return;
  fail(ErrorCode::not_implemented, "{}: field '{}': found '{}'; only 'right' is supported", config.source(), field,
       side);
}

/// tokenizer.json's padding counts where the configuration names no side.
void check_sides(const ConfigReader& tokenizer, const ConfigReader& config) {
  if (tokenizer.has("padding") && !config.has("padding_side"))
    require_right(tokenizer, "padding.direction", tokenizer.object("padding").text_or("direction", "Right"));
}

void read_tokenizer_json(const std::filesystem::path& file, const ConfigReader& config, TokenizerFiles& files) {
  const ConfigReader tokenizer = ConfigReader::read(file);
  files.source = file.string();
  const std::string normalizer = tokenizer.object("normalizer").text("type");
  if (normalizer != "NFC")
    tokenizer.reject("normalizer.type", fmt::format("found '{}'; 'NFC' is expected", normalizer));
  check_pre_tokenizer(tokenizer);
  check_post_processor(tokenizer);
  const ConfigReader model = tokenizer.object("model");
  check_model(model);
  files.vocabulary = read_vocabulary(model.object("vocab").json(), files.source);
  read_merges(model, files);
  read_added_tokens(tokenizer, files);
  check_sides(tokenizer, config);
}

/// The older layout. Normalisation and pattern follow from the tokenizer's class.
void read_separate_files(const std::filesystem::path& folder, const ConfigReader& config, TokenizerFiles& files) {
  const std::string name = config.text("tokenizer_class");
  if (name != "Qwen2Tokenizer" && name != "Qwen2TokenizerFast")
    config.reject("tokenizer_class",
                  fmt::format("found '{}'; without tokenizer.json Qwen2Tokenizer is expected", name));
  const std::filesystem::path vocabulary = folder / "vocab.json";
  if (!std::filesystem::exists(vocabulary))
    fail(ErrorCode::not_found, "{} holds neither tokenizer.json nor vocab.json", folder.string());
  files.source = (folder / "merges.txt").string();
  files.vocabulary = read_vocabulary(read_json_file(vocabulary), vocabulary.string());
  files.merges = read_merges_text(folder / "merges.txt");
  const std::filesystem::path added = folder / "added_tokens.json";
  if (!std::filesystem::exists(added)) return;
  for (auto& [content, id] : read_vocabulary(read_json_file(added), added.string()))
    add_token(files, {content, id}, added.string());
}

std::string read_pad_token(const ConfigReader& config) {
  const bool is_described = config.has("pad_token") && config.json()["pad_token"].is_object();
  if (is_described) return config.object("pad_token").text("content");
  return config.text_or("pad_token", "<|endoftext|>");
}

}  // namespace

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder) {
  const ConfigReader config = ConfigReader::read(folder / "tokenizer_config.json");
  for (const std::string_view field : {"add_prefix_space", "add_bos_token", "add_eos_token", "split_special_tokens"})
    require_off(config, field);

  TokenizerFiles files;
  if (std::filesystem::exists(folder / "tokenizer.json")) {
    read_tokenizer_json(folder / "tokenizer.json", config, files);
  } else {
    read_separate_files(folder, config, files);
  }
  read_added_tokens_decoder(config, files);
  files.pad_token = read_pad_token(config);
  for (const std::string_view side : {"padding_side", "truncation_side"})
    require_right(config, side, config.text_or(side, "right"));
  return files;
}

}  // namespace lamina
