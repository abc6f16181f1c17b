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
  return onednn::cached("group_norm", {pixels, channels, activation == Activation::silu ? 1 : 0}, [=] {
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

/// Per channel, all of `channels` elements.
struct Channels {
  double* sum;
  double* sum_of_squares;
  float* centre;
  float* scale;
  float* shift;
};

/// Double accumulators: the variance as a difference of two large sums then keeps more digits than f32 has.
void sum_channels(const ConstTensorView& x, const Channels& of) {
  const std::int64_t channels = x.size(2);
  std::fill_n(of.sum, channels, 0.0);
  std::fill_n(of.sum_of_squares, channels, 0.0);
  const auto* pixel = x.as<float>();
  for (std::int64_t rest = x.size(0) * x.size(1); rest > 0; --rest, pixel += channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = pixel[c];
      of.sum[c] += value;
      of.sum_of_squares[c] += value * value;
    }
  }
}

/// Turns the sums into what normalises. Weight and bias lie where scale and shift go.
void find_normalisation(const ConstTensorView& x, const GroupNormOptions& options, const Channels& of) {
  const std::int64_t channels = x.size(2);
  const std::int64_t width = channels / options.groups;
  const auto count = static_cast<double>(x.size(0) * x.size(1) * width);
  for (std::int64_t begin = 0; begin < channels; begin += width) {
    const double mean = std::accumulate(of.sum + begin, of.sum + begin + width, 0.0) / count;
    const double mean_square =
        std::accumulate(of.sum_of_squares + begin, of.sum_of_squares + begin + width, 0.0) / count;
    const double variance = std::max(mean_square - mean * mean, 0.0);
    const double inverse_deviation = 1.0 / std::sqrt(variance + static_cast<double>(options.epsilon));
    const auto centre = static_cast<float>(mean);
    for (std::int64_t c = begin; c < begin + width; ++c) {
      const double scale = of.scale[c] * inverse_deviation;
      of.centre[c] = centre;
      of.scale[c] = static_cast<float>(scale);
      // The shift makes up for the rounding of the centre, which counts where the mean is far above the deviation.
      of.shift[c] = static_cast<float>(of.shift[c] + (static_cast<double>(centre) - mean) * scale);
    }
  }
}

}  // namespace

void group_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, const GroupNormOptions& options, const TensorView& y) {
  const auto normalise = normalisation(x.size(0) * x.size(1), x.size(2), options.activation);

  const auto channels = static_cast<std::size_t>(x.size(2));
  Scratch scratch;
  const std::size_t scratchpad = scratch.add(normalise->scratchpad_bytes());
  const std::size_t sums = scratch.add(2 * channels * sizeof(double));
  const std::size_t centre = scratch.add(channels * sizeof(float));
  const std::size_t scale = scratch.add(channels * sizeof(float));
  const std::size_t shift = scratch.add(channels * sizeof(float));
  scratch.obtain(context);

  cpu_launch(context, "group_norm", {x, weight, bias}, {y}, scratch.range(), [=] {
    auto* sum = reinterpret_cast<double*>(scratch.at(sums));
    const Channels of{sum, sum + channels, scratch.floats(centre), scratch.floats(scale), scratch.floats(shift)};
    widen(weight, of.scale);
    widen(bias, of.shift);
    sum_channels(x, of);
    find_normalisation(x, options, of);
    normalise->run(scratch.at(scratchpad), {onednn::input(DNNL_ARG_SRC_0, x.data()),
                                            onednn::input(DNNL_ARG_SRC_1, scratch.at(centre)),
                                            onednn::input(kScaleArgument, scratch.at(scale)),
                                            onednn::input(kShiftArgument, scratch.at(shift)),
                                            {DNNL_ARG_DST, y.data()}});
  });
}

}  // namespace lamina::ops::cpu
