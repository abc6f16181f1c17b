#include "tensor/f16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/bf16.h"

namespace lamina {
namespace {

/// The value by the definition of binary16.
double defined_value(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 0x1F);
  const double fraction = (bits & 0x3FF) / 1024.0;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(WidenF16, IsExactForEveryFiniteValue) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7C00) == 0x7C00) continue;
    const float value = widen_f16(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(static_cast<double>(value), defined_value(bits)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

TEST(WidenF16, KeepsInfinitiesAndNans) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(widen_f16(0x7C00)), 0x7F800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(widen_f16(0xFC00)), 0xFF800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(widen_f16(0x7E01)), 0x7FC02000U);
  EXPECT_TRUE(std::isnan(widen_f16(0xFC01)));
}

/// The range of bf16 holds all of it: the largest value rounds to 2^16, the smallest stays.
TEST(WidenF16, NarrowsToFiniteBf16) {
  EXPECT_EQ(widen(narrow(widen_f16(0x7BFF))), 65536.0F);
  EXPECT_EQ(widen(narrow(widen_f16(0x0001))), 0x1p-24F);
}

}  // namespace
}  // namespace lamina
