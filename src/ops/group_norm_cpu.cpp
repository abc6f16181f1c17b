#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>

#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/onednn.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

constexpr int kScaleArgument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
constexpr int kShiftArgument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1;

/// y = activation((x - centre) * scale + shift), the three per channel.
std::shared_ptr<const onednn::Primitive> normalisation(std::int64_t pixels, std::int64_t channels,
                                                       Activation activation) {
  return onednn::cached("normalise_channels", {pixels, channels, activation == Activation::silu ? 1 : 0}, [=] {
    const auto matrix = [=](std::int64_t rows) {
      return dnnl::memory::desc({rows, channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    };
    dnnl::post_ops then;
    then.append_binary(dnnl::algorithm::binary_mul, matrix(1));
    then.append_binary(dnnl::algorithm::binary_add, matrix(1));
    if (activation == Activation::silu) then.append_eltwise(1.0F, dnnl::algorithm::eltwise_swish, 1.0F, 0.0F);
    dnnl::primitive_attr attributes = onednn::user_scratchpad();
    attributes.set_post_ops(then);
    const dnnl::binary::desc centring(dnnl::algorithm::binary_sub, matrix(pixels), matrix(1), matrix(pixels));
    return dnnl::binary::primitive_desc(centring, attributes, onednn::engine());
  });
}

/// Double accumulators: the variance as a difference of two large sums then keeps more digits than f32 has.
void sum_channels(const ConstTensorView& x, double* sum, double* sum_of_squares) {
  const std::int64_t channels = x.size(2);
  std::fill_n(sum, channels, 0.0);
  std::fill_n(sum_of_squares, channels, 0.0);
  const auto* pixel = x.as<float>();
  for (std::int64_t rest = x.size(0) * x.size(1); rest > 0; --rest, pixel += channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = pixel[c];
      sum[c] += value;
      sum_of_squares[c] += value * value;
    }
  }
}

/// The sum over bands and the channels [begin, end), of the moments of one kind: 0 sums, 1 squares.
double group_sum(const ConstTensorView& moments, std::int64_t kind, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t band = 0; band < moments.size(0); ++band) {
    const double* of_band = moments.as<double>() + band * moments.stride(0) + kind * moments.stride(1);
    sum = std::accumulate(of_band + begin, of_band + end, sum);
  }
  return sum;
}

/// Weight and bias lie where scale and shift go.
void find_normalisation(const ConstTensorView& moments, std::int64_t pixels, const GroupNormOptions& options,
                        float* centre_of, float* scale_of, float* shift_of) {
  const std::int64_t channels = moments.size(2);
  const std::int64_t width = channels / options.groups;
  const auto count = static_cast<double>(pixels * width);
  for (std::int64_t begin = 0; begin < channels; begin += width) {
    const double mean = group_sum(moments, 0, begin, begin + width) / count;
    const double variance = std::max(group_sum(moments, 1, begin, begin + width) / count - mean * mean, 0.0);
    const double inverse_deviation = 1.0 / std::sqrt(variance + static_cast<double>(options.epsilon));
    const auto centre = static_cast<float>(mean);
    for (std::int64_t c = begin; c < begin + width; ++c) {
      const double scale = scale_of[c] * inverse_deviation;
      centre_of[c] = centre;
      scale_of[c] = static_cast<float>(scale);
      // The shift makes up for the rounding of the centre, which counts where the mean is far above the deviation.
      shift_of[c] = static_cast<float>(shift_of[c] + (static_cast<double>(centre) - mean) * scale);
    }
  }
}

}  // namespace

void channel_moments(OpContext& context, const ConstTensorView& x, const TensorView& moments) {
  cpu_launch(context, "channel_moments", {x}, {moments}, {},
             [=] { sum_channels(x, moments.as<double>(), moments.as<double>() + moments.stride(0)); });
}

void group_normalisation(OpContext& context, const ConstTensorView& moments, std::int64_t pixels,
                         const ConstTensorView& weight, const ConstTensorView& bias, const GroupNormOptions& options,
                         const TensorView& normalisation) {
  cpu_launch(context, "group_normalisation", {moments, weight, bias}, {normalisation}, {}, [=] {
    auto* centre = normalisation.as<float>();
    float* scale = centre + normalisation.stride(0);
    float* shift = scale + normalisation.stride(0);
    widen(weight, scale);
    widen(bias, shift);
    find_normalisation(moments, pixels, options, centre, scale, shift);
  });
}

void normalise_channels(OpContext& context, const ConstTensorView& x, const ConstTensorView& by, Activation activation,
                        const TensorView& y) {
  const auto normalise = normalisation(x.size(0) * x.size(1), x.size(2), activation);
  Scratch scratch;
  const std::size_t scratchpad = scratch.add(normalise->scratchpad_bytes());
  scratch.obtain(context);
  cpu_launch(context, "normalise_channels", {x, by}, {y}, scratch.range(), [=] {
    const auto row = [&](std::int64_t index) { return by.slice(0, index, index + 1).data(); };
    normalise->run(scratch.at(scratchpad), {onednn::input(DNNL_ARG_SRC_0, x.data()),
                                            onednn::input(DNNL_ARG_SRC_1, row(0)),
                                            onednn::input(kScaleArgument, row(1)),
                                            onednn::input(kShiftArgument, row(2)),
                                            {DNNL_ARG_DST, y.data()}});
  });
}

}  // namespace lamina::ops::cpu
