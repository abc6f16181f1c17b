#pragma once

#include <string_view>

namespace lamina {

/// Whether a checkpoint's tensor name ends in `suffix`, which starts where the name or a part of it does: "a.b.c" ends
/// in "b.c", "a.bb.c" does not.
inline bool ends_in_name(std::string_view tensor, std::string_view suffix) {
  if (!tensor.ends_with(suffix)) return false;
  return tensor.size() == suffix.size() || tensor[tensor.size() - suffix.size() - 1] == '.';
}

}  // namespace lamina
