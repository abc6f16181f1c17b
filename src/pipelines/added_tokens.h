#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

struct AddedToken {
  std::string content;
  std::int32_t id;
};

/// Tokens that are cut out of a text by exact match before anything else happens to it. Immutable after construction.
class AddedTokens {
 public:
  /// Contents are distinct and not empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// The longest token at the very start of `text`, or nullptr.
  const AddedToken* match(std::string_view text) const;

  /// The token with exactly that content, or nullptr.
  const AddedToken* find(std::string_view content) const;

 private:
  /// By first byte; longest first.
  std::array<std::vector<AddedToken>, 256> tokens_;
};

}  // namespace lamina
