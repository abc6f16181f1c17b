#pragma once

#include <filesystem>

namespace lamina {

/// Proves that a tokenizer's chat template, where its folder holds one, is of the format that `render_chat_prompt`
/// writes: that of Qwen3, with thinking that can be switched off. Templates are not evaluated, only looked through for
/// what that format cannot do without. Throws incompatible naming the file and what it lacks.
void check_chat_template(const std::filesystem::path& tokenizer_folder);

}  // namespace lamina
