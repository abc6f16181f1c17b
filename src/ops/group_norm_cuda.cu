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

/// Per channel: y = activation((x - centre) * scale + shift).
struct Normalisation {
  float* centre;
  float* scale;
  float* shift;
};

/// One block a group.
template <typename Weight, typename Bias>
__global__ void __launch_bounds__(kThreads)
    find_normalisation(const Moments* slices, const Slices of, int group_channels, float epsilon, const Weight* weight,
                       const Bias* bias, Normalisation result) {
  __shared__ double space[2][kMostWarps];
  const std::int64_t first = std::int64_t{blockIdx.x} * group_channels;
  Moments own{0, 0};
  for (std::int64_t i = threadIdx.x; i < std::int64_t{of.count} * group_channels; i += kThreads) {
    own += slices[i / group_channels * of.channels + first + i % group_channels];
  }
  const double count = static_cast<double>(of.pixels) * group_channels;
  const double mean = block_sum(own.sum, space[0]) / count;
  const double variance = fmax(block_sum(own.squares, space[1]) / count - mean * mean, 0.0);
  const double inverse_deviation = 1.0 / sqrt(variance + static_cast<double>(epsilon));
  const auto centre = static_cast<float>(mean);
  for (std::int64_t i = threadIdx.x; i < group_channels; i += kThreads) {
    const std::int64_t channel = first + i;
    const double scale = load<1>(weight + channel)[0] * inverse_deviation;
    result.centre[channel] = centre;
    result.scale[channel] = static_cast<float>(scale);
    // The shift makes up for the rounding of the centre, which counts where the mean is far above the deviation.
    result.shift[channel] =
        static_cast<float>(load<1>(bias + channel)[0] + (static_cast<double>(centre) - mean) * scale);
  }
}

void find(cudaStream_t stream, const Moments* slices, const Slices& of, const ConstTensorView& weight,
          const ConstTensorView& bias, const GroupNormOptions& options, const Normalisation& result) {
  with_element(weight.dtype(), [&](auto weight_element) {
    with_element(bias.dtype(), [&](auto bias_element) {
      find_normalisation<<<static_cast<unsigned>(options.groups), kThreads, 0, stream>>>(
          slices, of, static_cast<int>(of.channels / options.groups), options.epsilon,
          weight.as<decltype(weight_element)>(), bias.as<decltype(bias_element)>(), result);
    });
  });
}

template <Activation activation>
struct Normalise {
  __device__ float operator()(float x, float centre, float scale, float shift) const {
    const float value = fmaf(x - centre, scale, shift);
    return activation == Activation::silu ? silu_of(value) : value;
  }
};

template <int kCount, typename T>
void normalise(cudaStream_t stream, const Slices& of, const T* x, const Normalisation& by, Activation activation,
               T* y) {
  const auto run = [&](auto function) {
    map_rows<kCount>(stream, of.pixels, of.channels, function, Rows<T>{y, of.channels}, Rows<const T>{x, of.channels},
                     EveryRow<float>{by.centre}, EveryRow<float>{by.scale}, EveryRow<float>{by.shift});
  };
  if (activation == Activation::silu)
    run(Normalise<Activation::silu>{});
  else
    run(Normalise<Activation::none>{});
}

}  // namespace

void group_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, const GroupNormOptions& options, const TensorView& y) {
  const Slices of = slices_of(x, lamina::cuda::multiprocessor_count(context.stream()));
  const auto channels = static_cast<std::size_t>(of.channels);
  Scratch scratch;
  const std::size_t slices = scratch.add(static_cast<std::size_t>(of.count) * channels * sizeof(Moments));
  const std::size_t centre = scratch.add(channels * sizeof(float));
  const std::size_t scale = scratch.add(channels * sizeof(float));
  const std::size_t shift = scratch.add(channels * sizeof(float));
  scratch.obtain(context);

  cuda_launch(context, "group_norm", {x, weight, bias}, {y}, scratch.range(), [&](cudaStream_t stream) {
    auto* moments = reinterpret_cast<Moments*>(scratch.at(slices));
    const Normalisation by{scratch.floats(centre), scratch.floats(scale), scratch.floats(shift)};
    with_element(x.dtype(), [&](auto element) {
      using T = decltype(element);
      const auto run = [&](auto count) {
        measure<count()>(stream, x.as<T>(), of, moments);
        find(stream, moments, of, weight, bias, options, by);
        normalise<count()>(stream, of, x.as<T>(), by, options.activation, y.as<T>());
      };
      constexpr int kCount = kVectorBytes / sizeof(T);
      if (all_in_packs({x, y}, kCount))
        run(std::integral_constant<int, kCount>());
      else
        run(std::integral_constant<int, 1>());
    });
  });
}

}  // namespace lamina::ops::cuda
