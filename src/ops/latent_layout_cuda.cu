#include <cstdint>
#include <type_traits>

#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/pack_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

template <typename T>
struct Pixels {
  T* first;
  std::int64_t row_stride;
  std::int64_t column_stride;
  std::int64_t channels;
  std::int64_t patches_across;
  std::int64_t count;  ///< of patches times channels: one thread each

  /// Calls visit(packed index, packed channel, element) for the four pixels of a thread's patch in its channel.
  template <typename Visit>
  __device__ void for_each(Visit visit) const {
    const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    const std::int64_t channel = thread % channels;
    const std::int64_t patch = thread / channels;
    const std::int64_t row = patch / patches_across * 2;
    const std::int64_t column = patch % patches_across * 2;
    T* corner = first + row * row_stride + column * column_stride + channel;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      visit(4 * thread + i, 4 * channel + i, corner + (i / 2) * row_stride + (i % 2) * column_stride);
  }
};

template <typename T, typename View>
Pixels<T> pixels_of(const View& view) {
  return {view.template as<std::remove_const_t<T>>(),
          view.stride(0),
          view.stride(1),
          view.size(2),
          view.size(1) / 2,
          view.shape().elements() / 4};
}

template <typename T>
__global__ void unpack_kernel(const float* tokens, const float* mean, const float* deviation, const Pixels<T> pixels) {
  pixels.for_each([=](std::int64_t packed, std::int64_t channel, T* pixel) {
    store<1>(pixel, {fmaf(tokens[packed], deviation[channel], mean[channel])});
  });
}

template <typename T>
__global__ void pack_kernel(const Pixels<const T> pixels, const float* mean, const float* deviation, float* tokens) {
  pixels.for_each([=](std::int64_t packed, std::int64_t channel, const T* pixel) {
    tokens[packed] = (load<1>(pixel)[0] - mean[channel]) / deviation[channel];
  });
}

constexpr int kThreads = 128;

template <typename T>
unsigned blocks_for(const Pixels<T>& pixels) {
  return static_cast<unsigned>(ceil_div(pixels.count, kThreads));
}

}  // namespace

void unpack_latents(OpContext& context, const ConstTensorView& tokens, const LatentNormalisation& normalisation,
                    const TensorView& pixels) {
  const auto& [mean, deviation] = normalisation;
  cuda_launch(context, "unpack_latents", {tokens, mean, deviation}, {pixels}, {}, [&](cudaStream_t stream) {
    with_element(pixels.dtype(), [&](auto element) {
      const auto to = pixels_of<decltype(element)>(pixels);
      unpack_kernel<<<blocks_for(to), kThreads, 0, stream>>>(tokens.as<float>(), normalisation.mean.as<float>(),
                                                             normalisation.deviation.as<float>(), to);
    });
  });
}

void pack_latents(OpContext& context, const ConstTensorView& pixels, const LatentNormalisation& normalisation,
                  const TensorView& tokens) {
  const auto& [mean, deviation] = normalisation;
  cuda_launch(context, "pack_latents", {pixels, mean, deviation}, {tokens}, {}, [&](cudaStream_t stream) {
    with_element(pixels.dtype(), [&](auto element) {
      const auto from = pixels_of<const decltype(element)>(pixels);
      pack_kernel<<<blocks_for(from), kThreads, 0, stream>>>(from, normalisation.mean.as<float>(),
                                                             normalisation.deviation.as<float>(), tokens.as<float>());
    });
  });
}

}  // namespace lamina::ops::cuda
