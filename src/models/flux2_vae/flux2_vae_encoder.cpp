#include "models/flux2_vae/flux2_vae_encoder.h"

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

void Flux2VaeEncoder::project_out(Flux2VaePass& pass, BandRunner& runner, const FeatureMap& x,
                                  const TensorView& mean) const {
  // The moments are mean and log variance side by side; only the mean is asked for.
  if (!quant_conv_) return pass.conv_of_norm(norm_out_, conv_out_, x, FeatureMap(mean));
  const FeatureMap moments = runner.make_map(x.dtype(), x.height(), x.width(), 2 * config_.latent_channels);
  pass.conv_of_norm(norm_out_, conv_out_, x, moments);
  pass.conv(*quant_conv_, moments, FeatureMap(mean));
}

std::size_t Flux2VaeEncoder::encode(ops::OpContext& context, Arena& arena, const TensorView& image,
                                    const TensorView& mean, const BandOptions& options) const {
  expects(image.rank() == 3, "an image of shape {}", to_string(image.shape()));
  expects(mean.rank() == 3 && mean.size(2) == config_.latent_channels, "a mean of shape {}, expected {} channels",
          to_string(mean.shape()), config_.latent_channels);
  return run_in_bands(context, arena, options, [&](BandRunner& runner) {
    Flux2VaePass pass(runner, config_.norm_groups);
    const FeatureMap input(image);
    FeatureMap x = runner.make_map(image.dtype(), input.height(), input.width(), conv_in_.weight->spec().shape[0]);
    pass.conv(conv_in_, input, x);
    for (const Flux2VaeLevel& level : levels_) {
      pass.resnets(level, x);
      if (level.resampler) pass.downsample(*level.resampler, x);
    }
    pass.mid_block(mid_block_, x);
    project_out(pass, runner, x, mean);
  });
}

}  // namespace lamina
