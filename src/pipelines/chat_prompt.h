#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/tokenizer.h"

namespace lamina {

/// A prompt as the text encoder takes it.
struct PromptTokens {
  std::vector<std::int32_t> ids;  ///< exactly the length asked for; pads fill the end
  std::size_t real_count = 0;     ///< ids that are no pads; at least one
  std::size_t cut_count = 0;      ///< ids that the length limit cut off at the end
};

inline constexpr std::size_t kPromptLength = 512;

/// The prompt as one user message in the Qwen chat format, thinking disabled, ready for the assistant's answer.
/// Checkpoints' template files are not evaluated, see `check_chat_template`. Source: Qwen3 chat template.
std::string render_chat_prompt(std::string_view prompt);

/// Throws invalid_argument where the prompt is not valid UTF-8, incompatible naming the tokenizer's folder where it
/// lacks a token of the chat format.
PromptTokens encode_chat_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                                std::size_t length = kPromptLength);

}  // namespace lamina
