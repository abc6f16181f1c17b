#include "ops/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

namespace lamina::ops {
namespace {

TEST(Bf16Test, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto bf16 = static_cast<std::uint16_t>(bits);
    const float value = widen(bf16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(widen(narrow(value))));
    } else {
      EXPECT_EQ(narrow(value), bf16);
    }
  }
}

TEST(Bf16Test, RoundsToTheNearest) {
  std::mt19937 engine(3);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    const float rounded = widen(narrow(value));
    if (!std::isfinite(value) || !std::isfinite(rounded)) continue;
    const double distance = std::abs(static_cast<double>(value) - rounded);
    const std::uint16_t bits = narrow(value);
    for (const int step : {-1, 1}) {
      const float neighbour = widen(static_cast<std::uint16_t>(bits + step));
      if (!std::isfinite(neighbour) || std::signbit(neighbour) != std::signbit(value)) continue;
      const double other = std::abs(static_cast<double>(value) - neighbour);
      EXPECT_TRUE(distance < other || (distance == other && bits % 2 == 0)) << value;
    }
  }
}

TEST(Bf16Test, NaNStaysNaNWhateverItsPayload) {
  for (const std::uint32_t bits : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU, 0x7FC00000U}) {
    const float narrowed = widen(narrow(std::bit_cast<float>(bits)));
    EXPECT_TRUE(std::isnan(narrowed));
    EXPECT_EQ(std::signbit(narrowed), (bits >> 31) != 0);
  }
}

}  // namespace
}  // namespace lamina::ops
