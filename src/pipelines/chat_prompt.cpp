#include "pipelines/chat_prompt.h"

#include <algorithm>

#include "base/error.h"
#include "pipelines/unicode_text.h"

namespace lamina {

std::string render_chat_prompt(std::string_view prompt) {
  std::string text = "<|im_start|>user\n";
  text += prompt;
  text += "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
  return text;
}

PromptTokens encode_chat_prompt(const Tokenizer& tokenizer, std::string_view prompt, std::size_t length) {
  require_utf8(prompt, "the prompt");
  for (const std::string_view token : {"<|im_start|>", "<|im_end|>", "<think>", "</think>"})
    if (!tokenizer.has_added_token(token))
      fail(ErrorCode::incompatible, "{}: the tokenizer lacks the added token '{}' of the Qwen chat format",
           tokenizer.folder().string(), token);

  PromptTokens tokens;
  tokens.ids = tokenizer.encode(render_chat_prompt(prompt));
  tokens.real_count = std::min(tokens.ids.size(), length);
  tokens.cut_count = tokens.ids.size() - tokens.real_count;
  tokens.ids.resize(length, tokenizer.pad_id());
  return tokens;
}

}  // namespace lamina
