#include "tensor/dtype.h"

#include <array>

namespace lamina {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t size_bytes;
};

// In the order of the enumerators, so that a dtype indexes its row.
constexpr std::array<DTypeRow, 15> kRows{{{DType::boolean, "BOOL", 1},
                                          {DType::u8, "U8", 1},
                                          {DType::i8, "I8", 1},
                                          {DType::u16, "U16", 2},
                                          {DType::i16, "I16", 2},
                                          {DType::u32, "U32", 4},
                                          {DType::i32, "I32", 4},
                                          {DType::u64, "U64", 8},
                                          {DType::i64, "I64", 8},
                                          {DType::f8_e4m3, "F8_E4M3", 1},
                                          {DType::f8_e5m2, "F8_E5M2", 1},
                                          {DType::f16, "F16", 2},
                                          {DType::bf16, "BF16", 2},
                                          {DType::f32, "F32", 4},
                                          {DType::f64, "F64", 8}}};

const DTypeRow& row(DType dtype) noexcept {
  return kRows[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  return row(dtype).size_bytes;
}

std::string_view to_string(DType dtype) noexcept {
  return row(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (const DTypeRow& candidate : kRows)
    if (candidate.name == name) return candidate.dtype;
  return std::nullopt;
}

}  // namespace lamina
