#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "device/stream.h"

namespace lamina::cpu {

/// Enqueues `work` on a stream of a CPU device. `access` has been announced by the caller; on the stream's thread its
/// ranges are shown to ThreadSanitizer before `work` runs, since the math libraries are not instrumented. An exception
/// of `work` becomes the stream's error.
void launch(Stream& cpu_stream, Access access, std::function<void()> work);

/// The same for work that meets its like on the streams of other devices. It costs what `cost_bytes` say of it; `work`
/// is told the virtual time at which it would then be over, and returns when it is, its peers regarded.
void launch_meeting(Stream& cpu_stream, Access access, std::size_t cost_bytes,
                    std::function<std::chrono::nanoseconds(std::chrono::nanoseconds virtual_time)> work);

}  // namespace lamina::cpu
