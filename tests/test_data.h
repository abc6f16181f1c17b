#pragma once

#include <cstdlib>
#include <filesystem>

namespace lamina::test_data {

/// Where the test data lies: in the source tree that the program was built from, or where the environment variable of
/// the same name says, as on another machine.
inline std::filesystem::path from_environment(const char* variable, const char* built_in) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : built_in;
}

inline std::filesystem::path fixtures() {
  return from_environment("LAMINA_FIXTURES_DIR", LAMINA_FIXTURES_DIR);
}

inline std::filesystem::path models() {
  return from_environment("LAMINA_MODELS_DIR", LAMINA_MODELS_DIR);
}

}  // namespace lamina::test_data
