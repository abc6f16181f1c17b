#include "pipelines/added_tokens.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  for (AddedToken& token : tokens) {
    expects(!token.content.empty(), "added token {} is empty", token.id);
    tokens_[static_cast<unsigned char>(token.content.front())].push_back(std::move(token));
  }
}

const AddedToken* AddedTokens::match(std::string_view text) const {
  if (text.empty()) return nullptr;
  for (const AddedToken& token : tokens_[static_cast<unsigned char>(text.front())])
    if (text.starts_with(token.content)) return &token;
  return nullptr;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const AddedToken* token = match(content);
  return token != nullptr && token->content == content ? token : nullptr;
}

}  // namespace lamina
