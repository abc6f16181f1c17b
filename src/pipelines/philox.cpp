#include "pipelines/philox.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lamina {
namespace {

constexpr std::size_t kBlockThreads = 256;
constexpr std::size_t kMostBlocks = 132 * (2048 / kBlockThreads);
constexpr std::size_t kValuesPerCall = 4;
constexpr int kRounds = 10;

std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}

std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

/// Box-Muller in float, with uniforms that are never 0. Source: cuRAND, _curand_box_muller.
std::array<float, 2> box_muller(std::uint32_t x, std::uint32_t y) {
  constexpr float kInverse = 0x1p-32F;
  constexpr auto kInverseAngle = static_cast<float>(2.0 * std::numbers::pi * 0x1p-32);
  const float uniform = static_cast<float>(x) * kInverse + kInverse / 2;
  const float angle = static_cast<float>(y) * kInverseAngle + kInverseAngle / 2;
  const float radius = std::sqrt(-2.0F * std::log(uniform));
  return {radius * std::sin(angle), radius * std::cos(angle)};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::array<float, 4> PhiloxGenerator::normals(std::uint64_t thread, std::uint64_t call) const {
  const std::array<std::uint32_t, 4> words =
      philox4x32({low(call), high(call), low(thread), high(thread)}, {low(seed_), high(seed_)});
  const std::array<float, 2> first = box_muller(words[0], words[1]);
  const std::array<float, 2> second = box_muller(words[2], words[3]);
  return {first[0], first[1], second[0], second[1]};
}

/// A grid of threads goes over the values; a call's four values of a thread lie a grid apart.
std::vector<float> PhiloxGenerator::draw(std::size_t count) {
  std::vector<float> values(count);
  const std::size_t threads = std::min(kMostBlocks, (count + kBlockThreads - 1) / kBlockThreads) * kBlockThreads;
  for (std::size_t begin = 0; begin < count; begin += threads * kValuesPerCall) {
    for (std::size_t thread = 0; thread < threads && begin + thread < count; ++thread) {
      const std::array<float, 4> drawn = normals(thread, calls_);
      for (std::size_t i = 0; i < kValuesPerCall; ++i)
        if (begin + i * threads + thread < count) values[begin + i * threads + thread] = drawn[i];
    }
    ++calls_;
  }
  return values;
}

}  // namespace lamina
