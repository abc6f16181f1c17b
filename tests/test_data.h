#pragma once

#include <filesystem>

namespace lamina::test_data {

/// Where the test data lies: in the source tree that the program was built from, or where the environment variables
/// LAMINA_FIXTURES_DIR and LAMINA_MODELS_DIR say, as on another machine.
std::filesystem::path fixtures();
std::filesystem::path models();
/// The documentation that goes with the program.
std::filesystem::path docs();

}  // namespace lamina::test_data
