#include "models/flux2_vae/flux2_vae_encoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "models/flux2_vae/flux2_vae_pass.h"

namespace lamina {

Flux2VaeEncoder::Flux2VaeEncoder(const Flux2VaeConfig& config, DTypeOf dtype_of)
    : config_(config), weights_(std::move(dtype_of)) {
  Flux2VaeLayerDeclarer declare(weights_);
  const std::vector<std::int64_t>& channels = config_.encoder_channels;
  const std::int64_t moments = 2 * config_.latent_channels;

  conv_in_ = declare.conv("encoder.conv_in", Flux2VaeConfig::kImageChannels, channels.front(), 3);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    std::optional<std::string> downsampler;
    if (i + 1 < channels.size()) downsampler = "downsamplers.0.conv";
    levels_.push_back(declare.level("encoder.down_blocks." + std::to_string(i), channels[i == 0 ? 0 : i - 1],
                                    channels[i], config_.encoder_resnets, downsampler));
  }
  mid_block_ = declare.mid_block("encoder.mid_block", channels.back(), config_.has_mid_attention);
  norm_out_ = declare.norm("encoder.conv_norm_out", channels.back());
  conv_out_ = declare.conv("encoder.conv_out", channels.back(), moments, 3);
  if (config_.has_quant_conv) quant_conv_ = declare.conv("quant_conv", moments, moments, 1);

  plan_ = OffloadPlan{"vae.encoder", {}, {}, weights_.take_groups()};
  plan_.validate();
}

std::int64_t Flux2VaeEncoder::largest_map(std::int64_t image_pixels) const {
  std::int64_t largest = 0;
  std::int64_t pixels = image_pixels;
  for (const Flux2VaeLevel& level : levels_) {
    largest = std::max(largest, pixels * level.widest);
    pixels /= 4;
  }
  return largest;
}

void Flux2VaeEncoder::project_out(Flux2VaePass& pass, Arena& arena, const FeatureMap& x, const TensorView& mean) const {
  // The moments are mean and log variance side by side; only the mean is asked for.
  if (!quant_conv_) return pass.conv_leading(conv_out_, x.view(), mean);
  const std::size_t mark = arena.used_bytes();
  const TensorView moments = arena.take(x.dtype(), {x.height(), x.width(), 2 * config_.latent_channels});
  pass.conv(conv_out_, x.view(), moments);
  pass.conv_leading(*quant_conv_, moments, mean);
  arena.rewind(mark);
}

void Flux2VaeEncoder::encode(ops::OpContext& context, Arena& arena, const ConstTensorView& image,
                             const TensorView& mean) const {
  expects(image.rank() == 3, "an image of shape {}", to_string(image.shape()));
  expects(mean.rank() == 3 && mean.size(2) == config_.latent_channels, "a mean of shape {}, expected {} channels",
          to_string(mean.shape()), config_.latent_channels);
  const std::size_t mark = arena.used_bytes();
  FeatureMap x(arena, image.dtype(), largest_map(image.size(0) * image.size(1)));
  Flux2VaePass pass(context, arena, config_.norm_groups);

  pass.conv(conv_in_, image, x.become(image.size(0), image.size(1), conv_in_.weight->spec().shape[0]));
  for (const Flux2VaeLevel& level : levels_) {
    pass.resnets(level, x);
    if (level.resampler) pass.downsample(*level.resampler, x);
  }
  pass.mid_block(mid_block_, x);
  pass.norm_silu(norm_out_, x.view());
  project_out(pass, arena, x, mean);
  arena.rewind(mark);
}

}  // namespace lamina
