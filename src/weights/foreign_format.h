#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace lamina {

// Formats that people keep weights in and that are not read: what the file is and what to do, as the end of a sentence
// that begins with its name. nullopt for all others.

/// By the extension: .bin, .ckpt, .pt, .pth, .pkl or .gguf.
std::optional<std::string_view> foreign_format(const std::filesystem::path& file);
/// By the first bytes of the file.
std::optional<std::string_view> foreign_format(std::span<const std::byte> bytes);

}  // namespace lamina
