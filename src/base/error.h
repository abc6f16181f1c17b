#pragma once

#include <fmt/format.h>

#include "lamina/error.h"

namespace lamina {

/// Throws `Error{code, formatted message}`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an internal error unless `condition` holds: for contracts between our own parts, never for user input.
template <typename... Args>
void expects(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(ErrorCode::internal, format, std::forward<Args>(args)...);
}

}  // namespace lamina
