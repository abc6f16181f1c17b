#include "models/flux2_vae/flux2_vae_decoder.h"

#include <algorithm>
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

std::int64_t Flux2VaeDecoder::largest_map(std::int64_t latent_pixels) const {
  std::int64_t largest = 0;
  std::int64_t pixels = latent_pixels;
  for (const Flux2VaeLevel& level : levels_) {
    largest = std::max(largest, pixels * level.widest);
    pixels *= 4;
  }
  return largest;
}

void Flux2VaeDecoder::project_in(Flux2VaePass& pass, Arena& arena, const ConstTensorView& latent, FeatureMap& x) const {
  const std::size_t mark = arena.used_bytes();
  ConstTensorView input = latent;
  if (post_quant_conv_) {
    const TensorView mixed = arena.take(latent.dtype(), latent.shape());
    pass.conv(*post_quant_conv_, latent, mixed);
    input = mixed;
  }
  pass.conv(conv_in_, input, x.become(latent.size(0), latent.size(1), conv_in_.weight->spec().shape[0]));
  arena.rewind(mark);
}

void Flux2VaeDecoder::decode(ops::OpContext& context, Arena& arena, const ConstTensorView& latent,
                             const TensorView& image) const {
  expects(latent.rank() == 3, "a latent of shape {}", to_string(latent.shape()));
  const std::size_t mark = arena.used_bytes();
  FeatureMap x(arena, latent.dtype(), largest_map(latent.size(0) * latent.size(1)));
  Flux2VaePass pass(context, arena, config_.norm_groups);

  project_in(pass, arena, latent, x);
  pass.mid_block(mid_block_, x);
  for (const Flux2VaeLevel& level : levels_) {
    pass.resnets(level, x);
    if (level.resampler) pass.upsample(*level.resampler, x);
  }
  pass.norm_silu(norm_out_, x.view());
  pass.conv(conv_out_, x.view(), image);
  arena.rewind(mark);
}

}  // namespace lamina
