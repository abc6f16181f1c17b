#include "base/error.h"

namespace lamina {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::incompatible: return "incompatible";
    case ErrorCode::out_of_host_memory: return "out_of_host_memory";
    case ErrorCode::out_of_device_memory: return "out_of_device_memory";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::not_implemented: return "not_implemented";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::device: return "device";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

}  // namespace lamina
