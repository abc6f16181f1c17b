#include "pipelines/noise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>

#include "base/expect_error.h"
#include "pipelines/paths.h"
#include "weights/checkpoint.h"

namespace lamina {
namespace {

/// A recorded tensor, widened to float.
std::vector<float> recorded(const char* file, const std::string& name) {
  const Checkpoint checkpoint = Checkpoint::open_file(testing::flux2_fixture(file));
  const TensorSpec* spec = checkpoint.find(name);
  if (spec == nullptr) throw std::runtime_error("no fixture " + name);
  const ConstTensorView view = checkpoint.view(*spec);
  std::vector<float> values;
  for (std::int64_t i = 0; i < view.shape().elements(); ++i) {
    const bool is_f32 = view.dtype() == DType::f32;
    std::uint32_t bits = 0;
    std::memcpy(&bits, view.data() + static_cast<std::size_t>(i) * size_of(view.dtype()), size_of(view.dtype()));
    values.push_back(std::bit_cast<float>(is_f32 ? bits : bits << 16));
  }
  return values;
}

void expect_close(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6F) << "value " << i;
}

class NoiseTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(NoiseTest, Float32IsTorchsToTheLastBits) {
  const auto expected = recorded("micro.safetensors", "noise.f32.seed" + std::to_string(GetParam()));
  expect_close(torch_randn(GetParam(), expected.size(), DType::f32), expected);
}

TEST_P(NoiseTest, BFloat16IsTorchsExactly) {
  const auto expected = recorded("micro.safetensors", "noise.bf16.seed" + std::to_string(GetParam()));
  EXPECT_EQ(torch_randn(GetParam(), expected.size(), DType::bf16), expected);
}

// 8192 values, 1920 values, and 10 values (fewer than a group of 16).
INSTANTIATE_TEST_SUITE_P(Seeds, NoiseTest, ::testing::Values(11, 4, 9));

TEST(Noise, GivesTheCasesLatents) {
  const std::pair<const char*, std::uint64_t> cases[] = {{"cfg128", 11}, {"wide", 12}, {"edit", 13}};
  for (const auto& [name, seed] : cases) {
    const auto expected = recorded("fixtures.safetensors", std::string(name) + ".noise");
    expect_close(torch_randn(seed, expected.size(), DType::f32), expected);
  }
}

TEST(Noise, LastPartialGroupIsDrawnAnew) {
  std::mt19937 generator(5);
  std::vector<double> uniforms;
  for (int i = 0; i < 24 + 16; ++i) uniforms.push_back(static_cast<double>(generator() & 0xFFFFFF) / (1 << 24));
  const auto expected = [&](std::size_t group, std::size_t j) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniforms[group + j % 8]));
    const double angle = 2.0 * std::numbers::pi * uniforms[group + 8 + j % 8];
    return radius * (j < 8 ? std::cos(angle) : std::sin(angle));
  };
  const std::vector<float> values = torch_randn(5, 24, DType::f32);
  for (std::size_t j = 0; j < 8; ++j) EXPECT_NEAR(values[j], expected(0, j), 2e-6);
  for (std::size_t j = 0; j < 16; ++j) EXPECT_NEAR(values[8 + j], expected(24, j), 2e-6);
}

TEST(Noise, EverySizeIsFilledWithFiniteValues) {
  for (std::size_t count = 0; count < 40; ++count) {
    const std::vector<float> values = torch_randn(1, count, DType::bf16);
    ASSERT_EQ(values.size(), count);
    for (const float value : values) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Noise, LowSeedBitsCount) {
  EXPECT_EQ(torch_randn(7, 16, DType::f32), torch_randn(7 + (std::uint64_t{1} << 32), 16, DType::f32));
  EXPECT_NE(torch_randn(7, 16, DType::f32), torch_randn(8, 16, DType::f32));
}

TEST(Noise, DrawsGoOnWhereTheLastOneEnded) {
  NoiseGenerator generator(GeneratorDevice::cpu, 5);
  const std::vector<float> first = generator.draw(32, DType::f32);
  EXPECT_EQ(first, torch_randn(5, 32, DType::f32));
  std::mt19937 words(5);
  words.discard(32);
  const double uniform = static_cast<double>(words() & 0xFFFFFF) / (1 << 24);
  words.discard(7);
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(words() & 0xFFFFFF) / (1 << 24);
  EXPECT_NEAR(generator.draw(16, DType::f32).front(), std::sqrt(-2.0 * std::log(1.0 - uniform)) * std::cos(angle),
              2e-6);
}

TEST(Noise, OfACudaGeneratorIsRoundedToBFloat16) {
  const std::vector<float> exact = NoiseGenerator(GeneratorDevice::cuda, 0).draw(12, DType::f32);
  const std::vector<float> rounded = NoiseGenerator(GeneratorDevice::cuda, 0).draw(12, DType::bf16);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(rounded[i]) & 0xFFFF, 0U);
    EXPECT_NEAR(rounded[i], exact[i], std::abs(exact[i]) / 256);
  }
}

TEST(Noise, RefusesOtherDTypes) {
  testing::expect_error(ErrorCode::not_implemented, {"F16"}, [] { torch_randn(0, 16, DType::f16); });
}

}  // namespace
}  // namespace lamina
