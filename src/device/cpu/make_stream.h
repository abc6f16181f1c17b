#pragma once

#include <memory>
#include <string>

#include "device/cpu/cpu_runtime.h"
#include "device/stream.h"

namespace lamina::cpu {

/// A stream of the CPU device `device`, whose runtime outlives it.
std::unique_ptr<Stream> make_stream(Device& device, CpuRuntime& runtime, std::string name);

}  // namespace lamina::cpu
