#include "models/flux2_vae/flux2_vae_pass.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/copy.h"
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

MapRows same_rows(const MapRows& rows) {
  return rows;
}

MapRows with_neighbours(const MapRows& rows) {
  return {rows.begin - 1, rows.end + 1};
}

/// Rows of which the doubled ones hold `rows` and their neighbours.
MapRows halved_with_neighbours(const MapRows& rows) {
  return {(rows.begin + 1) / 2 - 1, rows.end / 2 + 1};
}

MapRows doubled_with_next(const MapRows& rows) {
  return {2 * rows.begin, 2 * rows.end + 1};
}

/// `x` has the rows beyond the edges that a kernel of three rows reads; `y` may have fewer channels than the layer.
void convolve(ops::OpContext& context, const Flux2VaeConv& layer, const ConstTensorView& x, const TensorView& y) {
  const int pad = static_cast<int>(layer.weight->spec().shape[3] / 2);
  ops::conv2d(context, x, layer.weight->view().slice(0, 0, y.size(2)), layer.bias->view().slice(0, 0, y.size(2)),
              {.stride = 1, .pad_top = 0, .pad_left = pad, .pad_bottom = 0, .pad_right = pad}, y);
}

bool is_pointwise(const Flux2VaeConv& layer) {
  return layer.weight->spec().shape[2] == 1;
}

}  // namespace

FeatureMap Flux2VaePass::make_map(const FeatureMap& like, std::int64_t height, std::int64_t width,
                                  std::int64_t channels) {
  return runner_.make_map(like.dtype(), height, width, channels);
}

void Flux2VaePass::zero(const TensorView& rows) {
  if (rows.size(0) > 0 && !context().is_planning())
    context().stream().fill_async(rows.data(), rows.span_bytes(), std::byte{0}, "zero rows");
}

/// Rows of a map, zeros where they lie beyond its edges; `fill` makes the others.
TensorView Flux2VaePass::pad(const FeatureMap& map, const MapRows& rows, const Fill& fill) {
  const TensorView padded = runner_.arena().take(map.dtype(), {rows.count(), map.width(), map.channels()});
  const MapRows there = map.clip(rows);
  zero(padded.slice(0, 0, there.begin - rows.begin));
  fill(padded.slice(0, there.begin - rows.begin, there.end - rows.begin));
  zero(padded.slice(0, there.end - rows.begin, rows.count()));
  return padded;
}

/// The same of rows as they are; those themselves where all are there.
TensorView Flux2VaePass::pad_copy(const FeatureMap& map, const MapRows& rows, const TensorView& those_there) {
  if (those_there.size(0) == rows.count()) return those_there;
  return pad(map, rows, [&](const TensorView& inner) { ops::copy(context(), those_there, inner); });
}

TensorView Flux2VaePass::normalisation(const Flux2VaeNorm& layer, const FeatureMap& x) {
  const TensorView result = runner_.arena().take(DType::f32, {3, x.channels()});
  ops::group_normalisation(context(), x.moments(), x.pixels(), layer.weight->view(), layer.bias->view(),
                           {.groups = norm_groups_, .epsilon = kNormEpsilon}, result);
  return result;
}

void Flux2VaePass::conv(const Flux2VaeConv& layer, const FeatureMap& x, const FeatureMap& y) {
  const auto rows_for = is_pointwise(layer) ? same_rows : with_neighbours;
  runner_.run({{x, rows_for}}, y, [&](const BandRunner::Band& band) {
    convolve(context(), layer, pad_copy(x, rows_for(band.rows), band.inputs[0]), band.output);
  });
}

void Flux2VaePass::conv_of_norm(const Flux2VaeNorm& norm, const Flux2VaeConv& layer, const FeatureMap& x,
                                const FeatureMap& y) {
  const std::size_t mark = runner_.arena().used_bytes();
  const TensorView by = normalisation(norm, x);
  runner_.run({{x, with_neighbours}}, y, [&](const BandRunner::Band& band) {
    const TensorView normed = pad(x, with_neighbours(band.rows), [&](const TensorView& rows) {
      ops::normalise_channels(context(), band.inputs[0], by, ops::Activation::silu, rows);
    });
    convolve(context(), layer, normed, band.output);
  });
  runner_.arena().rewind(mark);
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
  const std::size_t mark = runner_.arena().used_bytes();
  const std::int64_t out = layer.conv1.weight->spec().shape[0];
  const FeatureMap hidden = make_map(x, x.height(), x.width(), out);
  conv_of_norm(layer.norm1, layer.conv1, x, hidden);

  const TensorView by = normalisation(layer.norm2, hidden);
  const auto add_branch = [&](const BandRunner::Band& band) {
    const TensorView normed = pad(hidden, with_neighbours(band.rows), [&](const TensorView& rows) {
      ops::normalise_channels(context(), band.inputs[0], by, ops::Activation::silu, rows);
    });
    const TensorView branch = runner_.arena().take(x.dtype(), band.output.shape());
    convolve(context(), layer.conv2, normed, branch);
    ops::add(context(), rows_of(branch), rows_of(band.output));
  };
  if (layer.shortcut) {
    FeatureMap y = make_map(x, x.height(), x.width(), out);
    runner_.run({{hidden, with_neighbours}, {x, same_rows}}, y, [&](const BandRunner::Band& band) {
      convolve(context(), *layer.shortcut, band.inputs[1], band.output);
      add_branch(band);
    });
    x = std::move(y);
  } else {
    runner_.run({{hidden, with_neighbours}, {x, same_rows}}, x, add_branch);
  }
  runner_.arena().rewind(mark);
}

void Flux2VaePass::attention(const Flux2VaeAttention& layer, FeatureMap& x) {
  Arena& arena = runner_.arena();
  const std::size_t mark = arena.used_bytes();
  const std::int64_t channels = x.channels();
  const TensorView whole = runner_.read_whole(x);
  const TensorView normed = arena.take(x.dtype(), whole.shape());
  const TensorView mixed = rows_of(normed);
  const TensorView qkv = arena.take(x.dtype(), {x.pixels(), 3 * channels});
  const auto head = [&](std::int64_t part) {
    return qkv.slice(1, part * channels, (part + 1) * channels).split_last(channels);
  };
  const TensorView projected = qkv.slice(1, 0, channels);

  ops::normalise_channels(context(), whole, normalisation(layer.norm, x), ops::Activation::none, normed);
  ops::linear(context(), rows_of(normed), layer.qkv_weight->view(), qkv, layer.qkv_bias->view());
  const float scale = 1.0F / std::sqrt(static_cast<float>(channels));
  ops::attention(context(), head(0), head(1), head(2), mixed.split_last(channels),
                 {.scale = scale, .causal = false, .valid_keys = std::nullopt});
  ops::linear(context(), mixed, layer.out_weight->view(), projected, layer.out_bias->view());
  ops::add(context(), projected, rows_of(whole));
  runner_.write_whole(whole, x);
  arena.rewind(mark);
}

void Flux2VaePass::downsample(const Flux2VaeConv& layer, FeatureMap& x) {
  expects(x.height() % 2 == 0 && x.width() % 2 == 0, "a feature map of {} has no half", to_string(x.view().shape()));
  FeatureMap half = make_map(x, x.height() / 2, x.width() / 2, x.channels());
  runner_.run({{x, doubled_with_next}}, half, [&](const BandRunner::Band& band) {
    ops::conv2d(context(), pad_copy(x, doubled_with_next(band.rows), band.inputs[0]), layer.weight->view(),
                layer.bias->view(), {.stride = 2, .pad_top = 0, .pad_left = 0, .pad_bottom = 0, .pad_right = 1},
                band.output);
  });
  x = std::move(half);
}

void Flux2VaePass::upsample(const Flux2VaeConv& layer, FeatureMap& x) {
  FeatureMap twice = make_map(x, 2 * x.height(), 2 * x.width(), x.channels());
  runner_.run({{x, halved_with_neighbours}}, twice, [&](const BandRunner::Band& band) {
    const MapRows sources = halved_with_neighbours(band.rows);
    const TensorView padded = pad_copy(x, sources, band.inputs[0]);
    const TensorView doubled =
        runner_.arena().take(x.dtype(), {2 * padded.size(0), 2 * padded.size(1), padded.size(2)});
    ops::upsample_nearest_2x(context(), padded, doubled);
    const std::int64_t first = band.rows.begin - 1 - 2 * sources.begin;
    convolve(context(), layer, doubled.slice(0, first, first + band.rows.count() + 2), band.output);
  });
  x = std::move(twice);
}

}  // namespace lamina
