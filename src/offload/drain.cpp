#include "offload/drain.h"

#include "base/log.h"

namespace lamina {

void drain(Stream& stream, std::string_view occasion) noexcept {
  try {
    stream.synchronize();
  } catch (const std::exception& error) {
    spdlog::error("stream '{}' failed while {}: {}", stream.name(), occasion, error.what());
  }
}

}  // namespace lamina
