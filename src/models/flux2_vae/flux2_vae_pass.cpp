#include "models/flux2_vae/flux2_vae_pass.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace lamina {
namespace {

/// Of all group norms. Source: diffusers, AutoencoderKLFlux2 (not in the configuration).
constexpr float kNormEpsilon = 1e-6F;

/// Pixels as rows.
TensorView rows_of(const TensorView& view) {
  return view.reshape({view.size(0) * view.size(1), view.size(2)});
}

}  // namespace

const TensorView& FeatureMap::become(std::int64_t height, std::int64_t width, std::int64_t channels) {
  const Shape shape{height, width, channels};
  expects(shape.elements() <= memory_.size(0), "a feature map {} in memory for {} elements", to_string(shape),
          memory_.size(0));
  view_ = TensorView(memory_.data(), memory_.dtype(), shape);
  return view_;
}

void Flux2VaePass::conv(const Flux2VaeConv& layer, const ConstTensorView& x, const TensorView& y) {
  expects(y.size(2) == layer.weight->spec().shape[0], "{} does not have {} outputs", layer.weight->name(), y.size(2));
  conv_leading(layer, x, y);
}

void Flux2VaePass::conv_leading(const Flux2VaeConv& layer, const ConstTensorView& x, const TensorView& y) {
  const ConstTensorView weight = layer.weight->view().slice(0, 0, y.size(2));
  const ConstTensorView bias = layer.bias->view().slice(0, 0, y.size(2));
  const int pad = static_cast<int>(weight.size(2) / 2);
  ops::conv2d(context_, x, weight, bias,
              {.stride = 1, .pad_top = pad, .pad_left = pad, .pad_bottom = pad, .pad_right = pad}, y);
}

void Flux2VaePass::norm(const Flux2VaeNorm& layer, const ConstTensorView& x, ops::Activation activation,
                        const TensorView& y) {
  ops::group_norm(context_, x, layer.weight->view(), layer.bias->view(),
                  {.groups = norm_groups_, .epsilon = kNormEpsilon, .activation = activation}, y);
}

void Flux2VaePass::norm_silu(const Flux2VaeNorm& layer, const TensorView& x) {
  norm(layer, x, ops::Activation::silu, x);
}

void Flux2VaePass::resnets(const Flux2VaeLevel& level, FeatureMap& x) {
  for (const Flux2VaeResnet& layer : level.resnets) resnet(layer, x);
}

void Flux2VaePass::mid_block(const Flux2VaeMidBlock& block, FeatureMap& x) {
  resnet(block.before, x);
  if (block.attention) attention(*block.attention, x);
  resnet(block.after, x);
}

void Flux2VaePass::resnet(const Flux2VaeResnet& layer, FeatureMap& x) {
  const std::size_t mark = arena_.used_bytes();
  const std::int64_t height = x.height();
  const std::int64_t width = x.width();
  const std::int64_t in = x.channels();
  const std::int64_t out = layer.conv1.weight->spec().shape[0];
  FeatureMap branch(arena_, x.dtype(), height * width * std::max(in, out));
  const TensorView hidden = arena_.take(x.dtype(), {height, width, out});

  norm(layer.norm1, x.view(), ops::Activation::silu, branch.become(height, width, in));
  conv(layer.conv1, branch.view(), hidden);
  norm_silu(layer.norm2, hidden);
  branch.become(height, width, out);
  if (layer.shortcut) {
    conv(*layer.shortcut, x.view(), branch.view());
    conv(layer.conv2, hidden, x.become(height, width, out));
  } else {
    conv(layer.conv2, hidden, branch.view());
  }
  ops::add(context_, rows_of(branch.view()), rows_of(x.view()));
  arena_.rewind(mark);
}

void Flux2VaePass::attention(const Flux2VaeAttention& layer, FeatureMap& x) {
  const std::size_t mark = arena_.used_bytes();
  const std::int64_t channels = x.channels();
  const TensorView pixels = rows_of(x.view());
  const TensorView normed = arena_.take(x.dtype(), x.view().shape());
  const TensorView mixed = rows_of(normed);
  const TensorView qkv = arena_.take(x.dtype(), {pixels.size(0), 3 * channels});
  const auto head = [&](std::int64_t part) {
    return qkv.slice(1, part * channels, (part + 1) * channels).split_last(channels);
  };
  const TensorView projected = qkv.slice(1, 0, channels);

  norm(layer.norm, x.view(), ops::Activation::none, normed);
  ops::linear(context_, rows_of(normed), layer.qkv_weight->view(), qkv, layer.qkv_bias->view());
  const float scale = 1.0F / std::sqrt(static_cast<float>(channels));
  ops::attention(context_, head(0), head(1), head(2), mixed.split_last(channels),
                 {.scale = scale, .causal = false, .valid_keys = std::nullopt});
  ops::linear(context_, mixed, layer.out_weight->view(), projected, layer.out_bias->view());
  ops::add(context_, projected, pixels);
  arena_.rewind(mark);
}

void Flux2VaePass::downsample(const Flux2VaeConv& layer, FeatureMap& x) {
  expects(x.height() % 2 == 0 && x.width() % 2 == 0, "a feature map of {} has no half", to_string(x.view().shape()));
  const std::size_t mark = arena_.used_bytes();
  const TensorView half = arena_.take(x.dtype(), {x.height() / 2, x.width() / 2, x.channels()});
  ops::conv2d(context_, x.view(), layer.weight->view(), layer.bias->view(),
              {.stride = 2, .pad_top = 0, .pad_left = 0, .pad_bottom = 1, .pad_right = 1}, half);
  ops::cast(context_, half, x.become(half.size(0), half.size(1), half.size(2)));
  arena_.rewind(mark);
}

void Flux2VaePass::upsample(const Flux2VaeConv& layer, FeatureMap& x) {
  const std::size_t mark = arena_.used_bytes();
  const TensorView twice = arena_.take(x.dtype(), {2 * x.height(), 2 * x.width(), x.channels()});
  ops::upsample_nearest_2x(context_, x.view(), twice);
  conv(layer, twice, x.become(twice.size(0), twice.size(1), twice.size(2)));
  arena_.rewind(mark);
}

}  // namespace lamina
