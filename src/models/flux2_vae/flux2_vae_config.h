#pragma once

#include <cstdint>
#include <vector>

#include "base/config_reader.h"

namespace lamina {

/// Sizes of a FLUX.2 autoencoder, from `vae/config.json`.
struct Flux2VaeConfig {
  static constexpr std::int64_t kImageChannels = 3;
  /// Side of the patches of latent pixels that one token packs, see `ops::LatentNormalisation`.
  static constexpr std::int64_t kPatchSide = 2;

  std::int64_t latent_channels = 0;
  /// Channels of each level, from the image's resolution down; every level halves it. As many for both ways.
  std::vector<std::int64_t> encoder_channels;
  std::vector<std::int64_t> decoder_channels;
  std::int64_t encoder_resnets = 0;  ///< per level
  std::int64_t decoder_resnets = 0;
  int norm_groups = 0;
  bool has_mid_attention = false;
  bool has_quant_conv = false;       ///< behind the encoder
  bool has_post_quant_conv = false;  ///< before the decoder
  double batch_norm_epsilon = 0;     ///< of the latents' variance
  std::int64_t sample_size = 0;      ///< side in pixels of the pictures it was made for

  std::int64_t levels() const { return static_cast<std::int64_t>(encoder_channels.size()); }
  /// Image pixels along a side of a latent pixel.
  std::int64_t spatial_factor() const { return std::int64_t{1} << (levels() - 1); }
  /// Channels of a packed latent token.
  std::int64_t packed_channels() const { return latent_channels * kPatchSide * kPatchSide; }

  /// Throws not_found or incompatible naming file and field.
  static Flux2VaeConfig read(const ConfigReader& reader);
};

}  // namespace lamina
