#include "models/flux2_vae/flux2_vae_layers.h"

#include <algorithm>

namespace lamina {

Flux2VaeConv Flux2VaeLayerDeclarer::conv(const std::string& name, std::int64_t in, std::int64_t out,
                                         std::int64_t kernel) {
  return {weights_.single(name + ".weight", {out, in, kernel, kernel}), weights_.single(name + ".bias", {out})};
}

Flux2VaeNorm Flux2VaeLayerDeclarer::norm(const std::string& name, std::int64_t channels) {
  return {weights_.single(name + ".weight", {channels}), weights_.single(name + ".bias", {channels})};
}

Flux2VaeMidBlock Flux2VaeLayerDeclarer::mid_block(const std::string& name, std::int64_t channels, bool has_attention) {
  Flux2VaeMidBlock block;
  block.before = resnet(name + ".resnets.0", channels, channels);
  if (has_attention) block.attention = attention(name + ".attentions.0", channels);
  block.after = resnet(name + ".resnets.1", channels, channels);
  return block;
}

Flux2VaeLevel Flux2VaeLayerDeclarer::level(const std::string& name, std::int64_t in, std::int64_t out,
                                           std::int64_t resnets, const std::optional<std::string>& resampler) {
  Flux2VaeLevel level;
  for (std::int64_t i = 0; i < resnets; ++i)
    level.resnets.push_back(resnet(name + ".resnets." + std::to_string(i), i == 0 ? in : out, out));
  if (resampler) level.resampler = conv(name + "." + *resampler, out, out, 3);
  return level;
}

Flux2VaeResnet Flux2VaeLayerDeclarer::resnet(const std::string& name, std::int64_t in, std::int64_t out) {
  Flux2VaeResnet layer{norm(name + ".norm1", in), conv(name + ".conv1", in, out, 3), norm(name + ".norm2", out),
                       conv(name + ".conv2", out, out, 3), std::nullopt};
  if (in != out) layer.shortcut = conv(name + ".conv_shortcut", in, out, 1);
  return layer;
}

Flux2VaeAttention Flux2VaeLayerDeclarer::attention(const std::string& name, std::int64_t channels) {
  const auto fused = [&](const std::string& kind, const Shape& shape) {
    return weights_.fused(
        name + ".to_qkv." + kind,
        {{name + ".to_q." + kind, shape}, {name + ".to_k." + kind, shape}, {name + ".to_v." + kind, shape}});
  };
  return {norm(name + ".group_norm", channels), fused("weight", {channels, channels}), fused("bias", {channels}),
          weights_.single(name + ".to_out.0.weight", {channels, channels}),
          weights_.single(name + ".to_out.0.bias", {channels})};
}

}  // namespace lamina
