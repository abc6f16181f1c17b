#include "pipelines/tokenizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "pipelines/pre_tokenizer.h"
#include "pipelines/tokenizer_files.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

std::int32_t find_pad_id(const TokenizerFiles& files, const std::filesystem::path& folder) {
  for (const AddedToken& token : files.added_tokens)
    if (token.content == files.pad_token) return token.id;
  const auto found = files.vocabulary.find(files.pad_token);
  if (found == files.vocabulary.end())
    fail(ErrorCode::incompatible, "{}: field 'pad_token': the vocabulary has no token '{}'",
         (folder / "tokenizer_config.json").string(), files.pad_token);
  return found->second;
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  return Tokenizer(folder, read_tokenizer_files(folder));
}

Tokenizer::Tokenizer(std::filesystem::path folder, TokenizerFiles files)
    : folder_(std::move(folder)),
      encoder_(files.vocabulary, files.merges, files.source),
      added_tokens_(files.added_tokens),
      pad_id_(find_pad_id(files, folder_)) {
  for (const auto& [token, id] : files.vocabulary) id_count_ = std::max(id_count_, id + 1);
  for (const AddedToken& token : files.added_tokens) id_count_ = std::max(id_count_, token.id + 1);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  require_utf8(text, "the text to tokenise");
  std::vector<std::int32_t> ids;
  std::size_t plain_begin = 0;
  for (std::size_t position = 0; position < text.size();) {
    const AddedToken* token = added_tokens_.match(text.substr(position));
    if (token == nullptr) {
      ++position;
      continue;
    }
    encode_plain(text.substr(plain_begin, position - plain_begin), ids);
    ids.push_back(token->id);
    position += token->content.size();
    plain_begin = position;
  }
  encode_plain(text.substr(plain_begin), ids);
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
  for (const std::string& piece : pre_tokenize(normalize_nfc(text))) encoder_.encode(piece, ids);
}

}  // namespace lamina
