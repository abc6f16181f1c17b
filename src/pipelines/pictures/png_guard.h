#pragma once

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstring>

namespace lamina {

/// What libpng said when it gave up; the error pointer of its structures.
struct PngFailure {
  std::array<char, 160> message{};
};

/// libpng's error handler: keeps the message and jumps to the `png_guarded` around the call.
[[noreturn]] inline void png_on_error(png_structp png, png_const_charp message) {
  auto& failure = *static_cast<PngFailure*>(png_get_error_ptr(png));
  std::strncpy(failure.message.data(), message, failure.message.size() - 1);
  png_longjmp(png, 1);
}

/// Warnings concern chunks that do not change the pixels.
inline void png_on_warning(png_structp, png_const_charp) {}

/// Runs `calls`, false where libpng failed in them. `calls` must not own anything: it may be left by a jump.
template <typename Calls>
bool png_guarded(png_structp png, const Calls& calls) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  calls();
  return true;
}

}  // namespace lamina
