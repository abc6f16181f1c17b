#include "weights/synthetic_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/expect_error.h"

namespace lamina {
namespace {

using testing::expect_error;

constexpr std::uint64_t kSeed = 7;

std::vector<std::uint16_t> values_of(const TensorSpec& tensor, std::uint64_t seed = kSeed) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(tensor.shape.elements()));
  fill_synthetic(tensor, seed, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

float widen(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

const TensorSpec kMatrix{"block.weight", DType::bf16, {500, 12}};

/// From an independent computation in Python, so that files stay the same from release to release.
TEST(SyntheticWeights, AreTheRecordedValues) {
  const std::vector<std::uint16_t> values = values_of(kMatrix);
  constexpr std::array<std::size_t, 9> kIndices{0, 1, 2, 3, 4, 5, 1023, 1024, 4999};
  constexpr std::array<std::uint16_t, 9> kExpected{0x3cc4, 0xbeba, 0x3edb, 0xbec3, 0xbc9b,
                                                   0xbd48, 0x3e3d, 0x3da7, 0xbe3a};
  for (std::size_t i = 0; i < kIndices.size(); ++i) EXPECT_EQ(values[kIndices[i]], kExpected[i]) << kIndices[i];
}

TEST(SyntheticWeights, AreUniformWithADeviationOfTheInverseRootOfTheFanIn) {
  const TensorSpec kernel{"conv.weight", DType::bf16, {256, 16, 3, 3}};
  double sum = 0;
  double squares = 0;
  double largest = 0;
  const std::vector<std::uint16_t> values = values_of(kernel);
  for (const std::uint16_t bits : values) {
    const double value = widen(bits);
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  const auto count = static_cast<double>(values.size());
  const double deviation = 1 / std::sqrt(16.0 * 9);
  EXPECT_NEAR(sum / count, 0, 4 * deviation / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), deviation, 0.01 * deviation);
  EXPECT_NEAR(largest, std::sqrt(3.0) * deviation, 0.01 * deviation);
}

TEST(SyntheticWeights, DependOnSeedAndNameAndNotOnThePiece) {
  const std::vector<std::uint16_t> whole = values_of(kMatrix);
  EXPECT_EQ(values_of(kMatrix), whole);
  EXPECT_NE(values_of(kMatrix, kSeed + 1), whole);
  EXPECT_NE(values_of({"other.weight", DType::bf16, {500, 12}}), whole);
  for (const std::size_t first : {std::size_t{1}, std::size_t{2}, std::size_t{1023}, std::size_t{5999}}) {
    std::vector<std::uint16_t> piece(std::min<std::size_t>(2049, whole.size() - first));
    fill_synthetic(kMatrix, kSeed, 2 * first, std::as_writable_bytes(std::span(piece)));
    EXPECT_EQ(std::memcmp(piece.data(), whole.data() + first, 2 * piece.size()), 0) << first;
  }
}

TEST(SyntheticWeights, MakeNormsAnIdentity) {
  const auto all = [](const char* name) { return widen(values_of({name, DType::bf16, {3}}).back()); };
  EXPECT_EQ(all("norm_q.weight"), 1.0F);
  EXPECT_EQ(all("bn.running_var"), 1.0F);
  EXPECT_EQ(all("bn.running_mean"), 0.0F);
  EXPECT_EQ(all("conv_in.bias"), 0.0F);
}

TEST(SyntheticWeights, RefuseOtherDtypesAndRanges) {
  std::array<std::byte, 8> bytes{};
  expect_error(ErrorCode::not_implemented, {"w", "F32"}, [&] {
    fill_synthetic({"w", DType::f32, {2}}, kSeed, 0, bytes);
  });
  expect_error(ErrorCode::internal, {"block.weight"}, [&] { fill_synthetic(kMatrix, kSeed, 11996, bytes); });
  expect_error(ErrorCode::internal, {"block.weight"}, [&] { fill_synthetic(kMatrix, kSeed, 1, bytes); });
}

}  // namespace
}  // namespace lamina
