#include "test_data.h"

#include <cstdlib>

namespace lamina::test_data {
namespace {

/// No other object knows a path of the source tree, so a compiler cache serves the others in any tree.
std::filesystem::path source_tree() {
  return LAMINA_SOURCE_DIR;
}

std::filesystem::path from_environment(const char* variable, const char* place) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::filesystem::path(value) : source_tree() / place;
}

}  // namespace

std::filesystem::path fixtures() {
  return from_environment("LAMINA_FIXTURES_DIR", "tests/fixtures");
}

std::filesystem::path models() {
  return from_environment("LAMINA_MODELS_DIR", "models");
}

std::filesystem::path docs() {
  return source_tree() / "docs";
}

}  // namespace lamina::test_data
