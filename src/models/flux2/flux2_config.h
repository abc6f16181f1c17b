#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/config_reader.h"

namespace lamina {

/// Sizes of a FLUX.2 transformer, from `transformer/config.json`.
struct Flux2Config {
  /// Coordinates of a token: time (which reference image), row, column, place in the text.
  static constexpr std::size_t kAxes = 4;

  std::int64_t in_channels = 0;        ///< of a packed latent token
  std::int64_t out_channels = 0;       ///< of a velocity
  std::int64_t text_channels = 0;      ///< of a text embedding
  std::int64_t timestep_channels = 0;  ///< of the sinusoid, even
  std::int64_t double_blocks = 0;
  std::int64_t single_blocks = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t mlp_width = 0;
  std::array<std::int64_t, kAxes> rope_axes{};  ///< features of a head that each coordinate rotates; sum is head_dim
  double rope_theta = 0;
  float epsilon = 0;          ///< of all norms
  bool has_guidance = false;  ///< guidance is embedded beside the timestep

  std::int64_t width() const { return heads * head_dim; }

  /// Throws not_found or incompatible naming file and field.
  static Flux2Config read(const ConfigReader& reader);
};

}  // namespace lamina
