#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <utility>

namespace lamina {
namespace {

TEST(DType, HasTheSpellingAndSizeOfTheFormat) {
  const std::pair<const char*, std::size_t> rows[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},      {"U16", 2},     {"I16", 2}, {"U32", 4},  {"I32", 4}, {"U64", 8},
      {"I64", 8},  {"F16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F32", 4}, {"BF16", 2}, {"F64", 8}};
  for (const auto& [name, size_bytes] : rows) {
    const std::optional<DType> dtype = parse_dtype(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(to_string(*dtype), name);
    EXPECT_EQ(size_of(*dtype), size_bytes) << name;
  }
  EXPECT_EQ(parse_dtype("F32"), DType::f32);
  EXPECT_EQ(parse_dtype("BF16"), DType::bf16);
  EXPECT_EQ(parse_dtype("F8_E4M3"), DType::f8_e4m3);
}

TEST(DType, KnowsNoOtherSpelling) {
  for (const char* name : {"", "f32", "float32", "F32 ", "F4", "bfloat16"})
    EXPECT_EQ(parse_dtype(name), std::nullopt) << name;
}

}  // namespace
}  // namespace lamina
