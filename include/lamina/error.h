#pragma once

#include <exception>
#include <string>
#include <utility>

namespace lamina {

/// What kind of failure an `Error` reports; callers branch on this, people read the message.
enum class ErrorCode {
  invalid_argument,      ///< the caller asked for something that is not allowed
  not_found,             ///< a file, tensor or field does not exist
  corrupt,               ///< a file contradicts itself or is cut short
  incompatible,          ///< two valid inputs contradict each other (configuration and tensor shape)
  out_of_host_memory,    ///< a host memory limit would be exceeded
  out_of_device_memory,  ///< a device memory limit would be exceeded
  unavailable,           ///< the machine lacks something (a device, a library, a writable path)
  not_implemented,       ///< a legal request that this build cannot serve
  cancelled,             ///< the caller withdrew the request
  device,                ///< the device failed; work in flight is lost
  internal,              ///< a bug in Lamina
};

/// The code's name as it is printed: "invalid_argument", "not_found", ...
const char* to_string(ErrorCode code) noexcept;

/// The only exception type Lamina throws. The message names the file, tensor, flag or field, what was found and what
/// was expected. Immutable after construction; may be copied between threads.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
};

}  // namespace lamina
