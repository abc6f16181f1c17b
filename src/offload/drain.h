#pragma once

#include <string_view>

#include "device/stream.h"

namespace lamina {

/// Waits for a stream's work while something is being given up; an error of that work is logged, since the reason for
/// giving up is already on its way or nobody is left to tell.
void drain(Stream& stream, std::string_view occasion) noexcept;

}  // namespace lamina
