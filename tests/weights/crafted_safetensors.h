#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lamina::testing {

/// Eight little-endian bytes.
inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 0xFF));
  return bytes;
}

/// A safetensors file with a header as it is written here, right or wrong, and `data_bytes` bytes 0, 1, 2, ... behind
/// it.
inline std::string crafted_safetensors(std::string_view header, std::size_t data_bytes = 0) {
  std::string bytes = length_bytes(header.size());
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<char>(i & 0xFF));
  return bytes;
}

}  // namespace lamina::testing
