#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "pipelines/added_tokens.h"
#include "pipelines/byte_pair_encoder.h"

namespace lamina {

struct TokenizerFiles;

/// Byte-level BPE as the Qwen models use it: added tokens are cut out, the text between them is normalised to NFC, cut
/// into pieces by a pattern, and each piece's bytes are joined by rank. Immutable after construction; thread safe.
class Tokenizer {
 public:
  /// Reads a checkpoint's `tokenizer/` folder. Errors as of `read_tokenizer_files` and `BytePairEncoder`.
  static Tokenizer load(const std::filesystem::path& folder);

  /// Throws invalid_argument naming the byte offset where `text` is not valid UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// Whether `content` is a token that is cut out of texts as it stands.
  bool has_added_token(std::string_view content) const { return added_tokens_.find(content) != nullptr; }
  /// What prompts are filled up with.
  std::int32_t pad_id() const noexcept { return pad_id_; }
  /// Every id is below this.
  std::int32_t id_count() const noexcept { return id_count_; }
  /// For messages.
  const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  Tokenizer(std::filesystem::path folder, TokenizerFiles files);
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const;

  std::filesystem::path folder_;
  BytePairEncoder encoder_;
  AddedTokens added_tokens_;
  std::int32_t pad_id_;
  std::int32_t id_count_ = 0;
};

}  // namespace lamina
