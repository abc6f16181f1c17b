#include "engine/select_device.h"

#include <utility>

#include "base/error.h"
#include "device/cpu/cpu_device.h"

namespace lamina {

std::unique_ptr<Device> select_device(const std::string& name, std::optional<std::size_t> memory_limit_bytes,
                                      std::shared_ptr<HostMemoryBudget> host_memory) {
  if (name == "auto" || name == "cpu")
    return create_cpu_device({.memory_limit_bytes = memory_limit_bytes, .host_memory = std::move(host_memory)});
  if (name.starts_with("cuda"))
    fail(ErrorCode::unavailable, "device '{}': this build has no CUDA backend; use --device cpu", name);
  fail(ErrorCode::invalid_argument, "device '{}' is unknown; use auto or cpu", name);
}

}  // namespace lamina
