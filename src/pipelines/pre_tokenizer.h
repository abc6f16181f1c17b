#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// The pattern whose pieces `pre_tokenize` makes, as tokenizer.json spells it.
inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Cuts valid UTF-8 into the matches of `kQwenPattern`, which together are the whole text.
std::vector<std::string> pre_tokenize(std::string_view text);

}  // namespace lamina
