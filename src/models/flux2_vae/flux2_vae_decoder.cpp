#include "models/flux2_vae/flux2_vae_decoder.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "models/flux2_vae/flux2_vae_pass.h"

namespace lamina {

Flux2VaeDecoder::Flux2VaeDecoder(const Flux2VaeConfig& config, DTypeOf dtype_of)
    : config_(config), weights_(std::move(dtype_of)) {
  Flux2VaeLayerDeclarer declare(weights_);
  const std::int64_t latent = config_.latent_channels;
  const std::vector<std::int64_t> channels(config_.decoder_channels.rbegin(), config_.decoder_channels.rend());

  if (config_.has_post_quant_conv) post_quant_conv_ = declare.conv("post_quant_conv", latent, latent, 1);
  conv_in_ = declare.conv("decoder.conv_in", latent, channels.front(), 3);
  mid_block_ = declare.mid_block("decoder.mid_block", channels.front(), config_.has_mid_attention);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    std::optional<std::string> upsampler;
    if (i + 1 < channels.size()) upsampler = "upsamplers.0.conv";
    levels_.push_back(declare.level("decoder.up_blocks." + std::to_string(i), channels[i == 0 ? 0 : i - 1], channels[i],
                                    config_.decoder_resnets, upsampler));
  }
  norm_out_ = declare.norm("decoder.conv_norm_out", channels.back());
  conv_out_ = declare.conv("decoder.conv_out", channels.back(), Flux2VaeConfig::kImageChannels, 3);

  plan_ = OffloadPlan{"vae.decoder", {}, {}, weights_.take_groups()};
  plan_.validate();
}

FeatureMap Flux2VaeDecoder::project_in(Flux2VaePass& pass, BandRunner& runner, const TensorView& latent) const {
  const FeatureMap input(latent);
  FeatureMap x = runner.make_map(latent.dtype(), input.height(), input.width(), conv_in_.weight->spec().shape[0]);
  if (post_quant_conv_) {
    const FeatureMap mixed = runner.make_map(latent.dtype(), input.height(), input.width(), input.channels());
    pass.conv(*post_quant_conv_, input, mixed);
    pass.conv(conv_in_, mixed, x);
  } else {
    pass.conv(conv_in_, input, x);
  }
  return x;
}

std::size_t Flux2VaeDecoder::decode(ops::OpContext& context, Arena& arena, const TensorView& latent,
                                    const TensorView& image, const BandOptions& options) const {
  expects(latent.rank() == 3, "a latent of shape {}", to_string(latent.shape()));
  return run_in_bands(context, arena, options, [&](BandRunner& runner) {
    Flux2VaePass pass(runner, config_.norm_groups);
    FeatureMap x = project_in(pass, runner, latent);
    pass.mid_block(mid_block_, x);
    for (const Flux2VaeLevel& level : levels_) {
      pass.resnets(level, x);
      if (level.resampler) pass.upsample(*level.resampler, x);
    }
    pass.conv_of_norm(norm_out_, conv_out_, x, FeatureMap(image));
  });
}

}  // namespace lamina
