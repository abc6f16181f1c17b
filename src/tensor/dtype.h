#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lamina {

/// Element types of the safetensors format. Which of them an operation accepts is the operation's matter.
enum class DType { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f8_e4m3, f8_e5m2, f16, bf16, f32, f64 };

std::size_t size_of(DType dtype) noexcept;

/// The safetensors spelling: "BF16", "F8_E4M3", ...
std::string_view to_string(DType dtype) noexcept;

/// The dtype with that safetensors spelling, or nullopt.
std::optional<DType> parse_dtype(std::string_view name) noexcept;

}  // namespace lamina
