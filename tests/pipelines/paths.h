#pragma once

#include <filesystem>

namespace lamina::testing {

inline std::filesystem::path flux2_fixture(const char* name) {
  return std::filesystem::path(LAMINA_FIXTURES_DIR) / "flux2" / name;
}

inline std::filesystem::path tiny_shapes(const char* component) {
  return std::filesystem::path(LAMINA_MODELS_DIR) / "tiny-shapes" / component;
}

}  // namespace lamina::testing
