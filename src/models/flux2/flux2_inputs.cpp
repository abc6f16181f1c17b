#include "models/flux2/flux2_inputs.h"

#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace lamina {

std::vector<Flux2Position> flux2_text_positions(std::int64_t tokens) {
  std::vector<Flux2Position> positions;
  for (std::int64_t i = 0; i < tokens; ++i) positions.push_back({0, 0, 0, static_cast<std::int32_t>(i)});
  return positions;
}

std::vector<Flux2Position> flux2_image_positions(std::int32_t time, std::int64_t height, std::int64_t width) {
  std::vector<Flux2Position> positions;
  for (std::int64_t row = 0; row < height; ++row)
    for (std::int64_t column = 0; column < width; ++column)
      positions.push_back({time, static_cast<std::int32_t>(row), static_cast<std::int32_t>(column), 0});
  return positions;
}

RopeTable flux2_rope_table(const Flux2Config& config, std::span<const Flux2Position> positions) {
  struct Pair {
    std::size_t axis;
    double frequency;
  };
  std::vector<Pair> pairs;
  for (std::size_t axis = 0; axis < Flux2Config::kAxes; ++axis) {
    const auto features = static_cast<double>(config.rope_axes[axis]);
    for (std::int64_t j = 0; 2 * j < config.rope_axes[axis]; ++j)
      pairs.push_back({axis, 1.0 / std::pow(config.rope_theta, static_cast<double>(2 * j) / features)});
  }
  RopeTable table;
  for (const Flux2Position& position : positions) {
    for (const Pair& pair : pairs) {
      const double angle = position[pair.axis] * pair.frequency;
      table.cos.push_back(static_cast<float>(std::cos(angle)));
      table.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

std::vector<float> flux2_sinusoid(float value, std::int64_t channels) {
  expects(channels >= 2 && channels % 2 == 0, "a sinusoid of {} channels", channels);
  const auto half = static_cast<std::size_t>(channels / 2);
  const auto log_longest_period = static_cast<float>(-std::log(10000.0));
  std::vector<float> result(2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    const float frequency = std::exp(log_longest_period * static_cast<float>(i) / static_cast<float>(half));
    const float angle = value * 1000.0F * frequency;
    result[i] = std::cos(angle);
    result[half + i] = std::sin(angle);
  }
  return result;
}

}  // namespace lamina
