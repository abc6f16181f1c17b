#pragma once

#include <functional>

#include "device/stream.h"

namespace lamina::cpu {

/// Enqueues `work` on a stream of a CPU device. `access` has been announced by the caller; on the stream's thread its
/// ranges are shown to ThreadSanitizer before `work` runs, since the math libraries are not instrumented. An exception
/// of `work` becomes the stream's error.
void launch(Stream& cpu_stream, Access access, std::function<void()> work);

}  // namespace lamina::cpu
