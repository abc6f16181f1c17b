#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "pipelines/added_tokens.h"
#include "pipelines/byte_pair_encoder.h"

namespace lamina {

/// What the files of a `tokenizer/` folder say, checked to be a byte-level BPE with Qwen's pattern and NFC.
struct TokenizerFiles {
  std::string source;  ///< the file that holds the merges
  Vocabulary vocabulary;
  std::vector<TokenPair> merges;  ///< in order of rank
  std::vector<AddedToken> added_tokens;
  std::string pad_token;
};

/// Reads tokenizer.json, or vocab.json, merges.txt and added_tokens.json where it is absent, and tokenizer_config.json.
/// Throws not_found for a missing file or field, corrupt for a file that contradicts itself, incompatible for anything
/// that the tokenizer does otherwise than asked, not_implemented for padding or truncation on the left; all name the
/// file and the field.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);

}  // namespace lamina
