#pragma once

#include <string>
#include <string_view>

namespace lamina {

/// Text that may hold anything, for a terminal: control characters, which could move the cursor or write elsewhere, and
/// bytes that are not UTF-8 become '?'; line breaks and tabs stay. What goes beyond `most_bytes` is cut, and said.
std::string printable(std::string_view text, std::size_t most_bytes = 8192);

}  // namespace lamina
