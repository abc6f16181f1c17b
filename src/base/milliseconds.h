#pragma once

#include <chrono>

namespace lamina {

/// As reports and tables tell times.
inline double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace lamina
