#pragma once

#include <stdexcept>

#include "lamina/error.h"

namespace lamina::testing {

/// The Error that `function` throws; a test whose function throws none fails.
template <typename Function>
Error catch_error(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("expected a lamina::Error, none was thrown");
}

}  // namespace lamina::testing
