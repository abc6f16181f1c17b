#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/flux2/flux2_config.h"
#include "models/rope_table.h"

namespace lamina {

// What the FLUX.2 transformer is told beside latents and text, computed on the host.

/// Where a token is: time, row, column, place in the text.
using Flux2Position = std::array<std::int32_t, Flux2Config::kAxes>;

/// (0, 0, 0, i) for the i-th token of a text.
std::vector<Flux2Position> flux2_text_positions(std::int64_t tokens);

/// (time, row, column, 0), row by row. The generated picture's time is 0.
std::vector<Flux2Position> flux2_image_positions(std::int32_t time, std::int64_t height, std::int64_t width);

/// The time of reference image `index` (from 0).
constexpr std::int32_t flux2_reference_time(std::int32_t index) {
  return 10 + 10 * index;
}

/// Angles position[a] * theta^(-2j / dims[a]), axis after axis; text positions come first, as in the joint sequence.
/// Computed in double precision. Source: diffusers, Flux2PosEmbed.
RopeTable flux2_rope_table(const Flux2Config& config, std::span<const Flux2Position> positions);

/// [channels]: the cosines, then the sines, of 1000 * value * 10000^(-i / (channels / 2)), in single precision.
/// `value` is a timestep in 0..1, or a guidance scale. Source: diffusers, Timesteps(flip_sin_to_cos).
std::vector<float> flux2_sinusoid(float value, std::int64_t channels);

}  // namespace lamina
