#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/arithmetic_cuda.cuh"
#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/map_rows_cuda.cuh"
#include "ops/scratch.h"
#include "ops/sum_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 4;

/// Of some elements. In f64, the variance as a difference of two large numbers keeps more digits than f32 has.
struct Moments {
  double sum;
  double squares;

  __device__ void operator+=(const Moments& other) {
    sum += other.sum;
    squares += other.squares;
  }
};

/// The image as [pixels, channels], in slices of `pixels_each` pixels.
struct Slices {
  std::int64_t pixels;
  std::int64_t channels;
  std::int64_t pixels_each;
  int count;
};

/// They depend on no alignment, so that planning without data finds the same.
Slices slices_of(const ConstTensorView& x, int multiprocessors) {
  constexpr std::int64_t kLeastElements = 64 * kThreads;
  const std::int64_t pixels = x.size(0) * x.size(1);
  const std::int64_t most = std::min<std::int64_t>(pixels, multiprocessors * kBlocksPerMultiprocessor);
  const std::int64_t wanted = std::clamp<std::int64_t>(x.shape().elements() / kLeastElements, 1, most);
  const std::int64_t pixels_each = ceil_div(pixels, wanted);
  return {pixels, x.size(2), pixels_each, static_cast<int>(ceil_div(pixels, pixels_each))};
}

/// Sums of some pixels' channels. f32 sums of what lies beyond the first pixel seen: a large mean costs no digits.
template <int kCount>
class ShiftedSums {
 public:
  __device__ explicit ShiftedSums(const Floats<kCount>& shift) : shift_(shift) {}

  __device__ void add(const Floats<kCount>& values) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float beyond = values[i] - shift_[i];
      sum_[i] += beyond;
      squares_[i] = fmaf(beyond, beyond, squares_[i]);
    }
  }

  __device__ Moments moments(int i, std::int64_t pixels) const {
    const double shift = shift_[i];
    const double sum = sum_[i];
    const auto count = static_cast<double>(pixels);
    return {sum + count * shift, squares_[i] + shift * (2 * sum + count * shift)};
  }

 private:
  Floats<kCount> shift_;
  Floats<kCount> sum_ = {};
  Floats<kCount> squares_ = {};
};

/// Writes the moments of each channel over each slice: [slices, channels]. A block has blockDim.x packs of channels of
/// one slice, of which it reads blockDim.y pixels at a time.
template <int kCount, typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    measure_slices(const T* x, const Slices of, Moments* slices) {
  __shared__ Moments threads[kThreads * kCount];  // [blockDim.y, blockDim.x, kCount]
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const std::int64_t channel = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kCount;
  const std::int64_t begin = blockIdx.y * of.pixels_each + threadIdx.y;
  const std::int64_t end = min((blockIdx.y + 1) * of.pixels_each, of.pixels);
  Moments* own = threads + thread * kCount;
  if (channel < of.channels && begin < end) {
    ShiftedSums<kCount> sums(load<kCount>(x + begin * of.channels + channel));
#pragma unroll 4
    for (std::int64_t pixel = begin; pixel < end; pixel += blockDim.y)
      sums.add(load<kCount>(x + pixel * of.channels + channel));
    const std::int64_t pixels = (end - begin + blockDim.y - 1) / blockDim.y;
    for (int i = 0; i < kCount; ++i) own[i] = sums.moments(i, pixels);
  } else {
    for (int i = 0; i < kCount; ++i) own[i] = {0, 0};
  }
  __syncthreads();

  const int width = static_cast<int>(blockDim.x) * kCount;
  for (int i = thread; i < width; i += kThreads) {
    Moments sum{0, 0};
    for (int row = 0; row < static_cast<int>(blockDim.y); ++row) sum += threads[row * width + i];
    const std::int64_t target = std::int64_t{blockIdx.x} * width + i;
    if (target < of.channels) slices[blockIdx.y * of.channels + target] = sum;
  }
}

template <int kCount, typename T>
void measure(cudaStream_t stream, const T* x, const Slices& of, Moments* slices) {
  const std::int64_t packs = of.channels / kCount;
  const int across = power_of_two_from(packs, kThreads);
  const dim3 grid(static_cast<unsigned>(ceil_div(packs, across)), static_cast<unsigned>(of.count));
  const dim3 block(static_cast<unsigned>(across), static_cast<unsigned>(kThreads / across));
  measure_slices<kCount><<<grid, block, 0, stream>>>(x, of, slices);
}

/// One thread a channel adds its slices in order.
__global__ void __launch_bounds__(kThreads) add_slices(const Moments* slices, const Slices of, double* moments) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (channel >= of.channels) return;
  Moments sum{0, 0};
  for (int slice = 0; slice < of.count; ++slice) sum += slices[slice * of.channels + channel];
  moments[channel] = sum.sum;
  moments[of.channels + channel] = sum.squares;
}

/// Moments [bands, 2, channels] of the groups of a picture.
struct Groups {
  const double* moments;
  std::int64_t bands;
  std::int64_t channels;
  std::int64_t pixels;
  int group_channels;
  float epsilon;
};

/// Per channel: y = activation((x - centre) * scale + shift).
template <typename Float>
struct Normalisation {
  Normalisation(Float* data, std::int64_t channels)
      : centre(data), scale(data + channels), shift(data + 2 * channels) {}

  Float* centre;
  Float* scale;
  Float* shift;
};

/// One block a group.
template <typename Weight, typename Bias>
__global__ void __launch_bounds__(kThreads)
    find_normalisation(const Groups of, const Weight* weight, const Bias* bias, Normalisation<float> result) {
  __shared__ double space[2][kMostWarps];
  const std::int64_t first = std::int64_t{blockIdx.x} * of.group_channels;
  Moments own{0, 0};
  for (std::int64_t i = threadIdx.x; i < of.bands * of.group_channels; i += kThreads) {
    const double* of_band = of.moments + i / of.group_channels * 2 * of.channels;
    const std::int64_t channel = first + i % of.group_channels;
    own += Moments{of_band[channel], of_band[of.channels + channel]};
  }
  const double count = static_cast<double>(of.pixels) * of.group_channels;
  const double mean = block_sum(own.sum, space[0]) / count;
  const double variance = fmax(block_sum(own.squares, space[1]) / count - mean * mean, 0.0);
  const double inverse_deviation = 1.0 / sqrt(variance + static_cast<double>(of.epsilon));
  const auto centre = static_cast<float>(mean);
  for (std::int64_t i = threadIdx.x; i < of.group_channels; i += kThreads) {
    const std::int64_t channel = first + i;
    const double scale = load<1>(weight + channel)[0] * inverse_deviation;
    result.centre[channel] = centre;
    result.scale[channel] = static_cast<float>(scale);
    // The shift makes up for the rounding of the centre, which counts where the mean is far above the deviation.
    result.shift[channel] =
        static_cast<float>(load<1>(bias + channel)[0] + (static_cast<double>(centre) - mean) * scale);
  }
}

template <Activation activation>
struct Normalise {
  __device__ float operator()(float x, float centre, float scale, float shift) const {
    const float value = fmaf(x - centre, scale, shift);
    return activation == Activation::silu ? silu_of(value) : value;
  }
};

template <int kCount, typename T>
void normalise(cudaStream_t stream, const ConstTensorView& x, const Normalisation<const float>& by,
               Activation activation, const TensorView& y) {
  const std::int64_t channels = x.size(2);
  const auto run = [&](auto function) {
    map_rows<kCount>(stream, x.size(0) * x.size(1), channels, function, Rows<T>{y.as<T>(), channels},
                     Rows<const T>{x.as<T>(), channels}, EveryRow<float>{by.centre}, EveryRow<float>{by.scale},
                     EveryRow<float>{by.shift});
  };
  if (activation == Activation::silu)
    run(Normalise<Activation::silu>{});
  else
    run(Normalise<Activation::none>{});
}

}  // namespace

void channel_moments(OpContext& context, const ConstTensorView& x, const TensorView& moments) {
  const Slices of = slices_of(x, lamina::cuda::multiprocessor_count(context.stream()));
  Scratch scratch;
  const std::size_t slices = scratch.add(static_cast<std::size_t>(of.count * of.channels) * sizeof(Moments));
  scratch.obtain(context);
  cuda_launch(context, "channel_moments", {x}, {moments}, scratch.range(), [&](cudaStream_t stream) {
    auto* of_slices = reinterpret_cast<Moments*>(scratch.at(slices));
    with_element(x.dtype(), [&](auto element) {
      using T = decltype(element);
      constexpr int kCount = kVectorBytes / sizeof(T);
      if (all_in_packs({x}, kCount))
        measure<kCount>(stream, x.as<T>(), of, of_slices);
      else
        measure<1>(stream, x.as<T>(), of, of_slices);
    });
    add_slices<<<static_cast<unsigned>(ceil_div(of.channels, kThreads)), kThreads, 0, stream>>>(of_slices, of,
                                                                                                moments.as<double>());
  });
}

void group_normalisation(OpContext& context, const ConstTensorView& moments, std::int64_t pixels,
                         const ConstTensorView& weight, const ConstTensorView& bias, const GroupNormOptions& options,
                         const TensorView& normalisation) {
  cuda_launch(context, "group_normalisation", {moments, weight, bias}, {normalisation}, {}, [&](cudaStream_t stream) {
    const std::int64_t channels = moments.size(2);
    const Groups of{
        moments.as<double>(), moments.size(0), channels, pixels, static_cast<int>(channels / options.groups),
        options.epsilon};
    const Normalisation<float> result(normalisation.as<float>(), channels);
    with_element(weight.dtype(), [&](auto weight_element) {
      with_element(bias.dtype(), [&](auto bias_element) {
        find_normalisation<<<static_cast<unsigned>(options.groups), kThreads, 0, stream>>>(
            of, weight.as<decltype(weight_element)>(), bias.as<decltype(bias_element)>(), result);
      });
    });
  });
}

void normalise_channels(OpContext& context, const ConstTensorView& x, const ConstTensorView& normalisation,
                        Activation activation, const TensorView& y) {
  cuda_launch(context, "normalise_channels", {x, normalisation}, {y}, {}, [&](cudaStream_t stream) {
    const Normalisation<const float> by(normalisation.as<float>(), x.size(2));
    with_element(x.dtype(), [&](auto element) {
      using T = decltype(element);
      constexpr int kCount = kVectorBytes / sizeof(T);
      if (all_in_packs({x, y}, kCount))
        normalise<kCount, T>(stream, x, by, activation, y);
      else
        normalise<1, T>(stream, x, by, activation, y);
    });
  });
}

}  // namespace lamina::ops::cuda
