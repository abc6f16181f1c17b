#include "pipelines/noise.h"

#include <cmath>
#include <numbers>
#include <random>
#include <span>

#include "base/error.h"
#include "ops/bf16.h"

namespace lamina {
namespace {

constexpr std::size_t kGroup = 16;

float identity(float value) {
  return value;
}

/// To bfloat16 and back, nearest even. The value is finite.
float round_to_bf16(float value) {
  return ops::widen(ops::narrow(value));
}

/// How a dtype draws and computes: uniforms have as many bits as its significand, and every operation rounds to it.
struct Arithmetic {
  int significand_bits;
  float (*round)(float);
};

constexpr Arithmetic kFloat32{24, identity};
constexpr Arithmetic kBFloat16{8, round_to_bf16};

/// Box-Muller on 16 uniforms in place: value j of the first half gives the radius, value j of the second the angle.
void transform_group(std::span<float> values, const Arithmetic& arithmetic) {
  const auto round = arithmetic.round;
  for (std::size_t j = 0; j < kGroup / 2; ++j) {
    const float logarithm = round(std::log(round(1.0F - values[j])));
    const float radius = round(std::sqrt(-2.0F * logarithm));
    const float angle = round(static_cast<float>(2.0 * std::numbers::pi * values[j + kGroup / 2]));
    values[j] = round(radius * round(std::cos(angle)));
    values[j + kGroup / 2] = round(radius * round(std::sin(angle)));
  }
}

void fill_uniform(std::span<float> values, std::mt19937& generator, int bits) {
  const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
  for (float& value : values) value = std::ldexp(static_cast<float>(generator() & mask), -bits);
}

/// A last group that is not full is drawn anew, together with the end of the group before it.
void draw_groups(std::span<float> values, std::mt19937& generator, const Arithmetic& arithmetic) {
  fill_uniform(values, generator, arithmetic.significand_bits);
  for (std::size_t begin = 0; begin + kGroup <= values.size(); begin += kGroup)
    transform_group(values.subspan(begin, kGroup), arithmetic);
  if (values.size() % kGroup == 0) return;
  const std::span<float> tail = values.last(kGroup);
  fill_uniform(tail, generator, arithmetic.significand_bits);
  transform_group(tail, arithmetic);
}

double draw_uniform(std::mt19937& generator) {
  constexpr int kBits = 53;
  const std::uint64_t high = generator();
  const std::uint64_t both = (high << 32) | generator();
  return std::ldexp(static_cast<double>(both & ((std::uint64_t{1} << kBits) - 1)), -kBits);
}

/// Fewer values than a group are computed in double, two by two.
void draw_pairs(std::span<float> values, std::mt19937& generator, const Arithmetic& arithmetic) {
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double angle = 2.0 * std::numbers::pi * draw_uniform(generator);
    const double radius = std::sqrt(-2.0 * std::log1p(-draw_uniform(generator)));
    values[i] = arithmetic.round(static_cast<float>(radius * std::cos(angle)));
    if (i + 1 < values.size()) values[i + 1] = arithmetic.round(static_cast<float>(radius * std::sin(angle)));
  }
}

std::vector<float> draw_from(std::mt19937& generator, std::size_t count, DType dtype) {
  const Arithmetic& arithmetic = dtype == DType::bf16 ? kBFloat16 : kFloat32;
  std::vector<float> values(count);
  if (count < kGroup) {
    draw_pairs(values, generator, arithmetic);
  } else {
    draw_groups(values, generator, arithmetic);
  }
  return values;
}

std::vector<float> draw_from(PhiloxGenerator& generator, std::size_t count, DType dtype) {
  std::vector<float> values = generator.draw(count);
  if (dtype == DType::bf16)
    for (float& value : values) value = round_to_bf16(value);
  return values;
}

std::variant<std::mt19937, PhiloxGenerator> make_generator(GeneratorDevice device, std::uint64_t seed) {
  if (device == GeneratorDevice::cuda) return PhiloxGenerator(seed);
  return std::mt19937(static_cast<std::uint32_t>(seed));
}

}  // namespace

NoiseGenerator::NoiseGenerator(GeneratorDevice device, std::uint64_t seed) : generator_(make_generator(device, seed)) {}

std::vector<float> NoiseGenerator::draw(std::size_t count, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::bf16)
    fail(ErrorCode::not_implemented, "noise is drawn as F32 or BF16, not as {}", to_string(dtype));
  return std::visit([&](auto& generator) { return draw_from(generator, count, dtype); }, generator_);
}

std::vector<float> torch_randn(std::uint64_t seed, std::size_t count, DType dtype) {
  return NoiseGenerator(GeneratorDevice::cpu, seed).draw(count, dtype);
}

}  // namespace lamina
