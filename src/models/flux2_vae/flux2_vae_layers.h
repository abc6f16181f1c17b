#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/flux2_vae/flux2_vae_config.h"
#include "models/module_weights.h"

namespace lamina {

// The layers that encoder and decoder consist of, as parameters; `Flux2VaePass` runs them.

struct Flux2VaeConv {
  const Parameter* weight = nullptr;  ///< [out, in, kernel, kernel]
  const Parameter* bias = nullptr;    ///< [out]
};

struct Flux2VaeNorm {
  const Parameter* weight = nullptr;  ///< [channels]
  const Parameter* bias = nullptr;    ///< [channels]
};

/// y = shortcut(x) + conv2(silu(norm2(conv1(silu(norm1(x)))))).
struct Flux2VaeResnet {
  Flux2VaeNorm norm1;
  Flux2VaeConv conv1;
  Flux2VaeNorm norm2;
  Flux2VaeConv conv2;
  std::optional<Flux2VaeConv> shortcut;  ///< 1x1; the identity where the channels stay
};

/// y = x + out(attention(qkv(norm(x)))): one head as wide as the channels, pixels as tokens.
struct Flux2VaeAttention {
  Flux2VaeNorm norm;
  const Parameter* qkv_weight = nullptr;  ///< [3 channels, channels]
  const Parameter* qkv_bias = nullptr;    ///< [3 channels]
  const Parameter* out_weight = nullptr;  ///< [channels, channels]
  const Parameter* out_bias = nullptr;    ///< [channels]
};

struct Flux2VaeMidBlock {
  Flux2VaeResnet before;
  std::optional<Flux2VaeAttention> attention;
  Flux2VaeResnet after;
};

/// The layers at one resolution, and the convolution of the change to the next one, except at the last.
struct Flux2VaeLevel {
  std::vector<Flux2VaeResnet> resnets;
  std::optional<Flux2VaeConv> resampler;
};

/// Declares layers under the checkpoint's names.
class Flux2VaeLayerDeclarer {
 public:
  explicit Flux2VaeLayerDeclarer(ModuleWeights& weights) : weights_(weights) {}

  Flux2VaeConv conv(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel);
  Flux2VaeNorm norm(const std::string& name, std::int64_t channels);
  Flux2VaeMidBlock mid_block(const std::string& name, std::int64_t channels, bool has_attention);
  /// `resampler` names the convolution below `name`; nullopt at the last level.
  Flux2VaeLevel level(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t resnets,
                      const std::optional<std::string>& resampler);

 private:
  Flux2VaeResnet resnet(const std::string& name, std::int64_t in, std::int64_t out);
  Flux2VaeAttention attention(const std::string& name, std::int64_t channels);

  ModuleWeights& weights_;
};

}  // namespace lamina
