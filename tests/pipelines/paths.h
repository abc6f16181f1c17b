#pragma once

#include <filesystem>

#include "test_data.h"

namespace lamina::testing {

inline std::filesystem::path flux2_fixture(const char* name) {
  return test_data::fixtures() / "flux2" / name;
}

inline std::filesystem::path tiny_shapes(const char* component) {
  return test_data::models() / "tiny-shapes" / component;
}

}  // namespace lamina::testing
