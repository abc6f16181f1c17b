#include "ops/conv_kernels_cuda.h"

#include "ops/pack_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kPack = 8;

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>(ceil_div(threads, kThreads));
}

__device__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

struct WeightShape {
  std::int64_t in;
  std::int64_t taps;
  std::int64_t row;
};

template <typename From, typename To>
__global__ void channels_last(const From* w, To* to, WeightShape shape, std::int64_t count) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const std::int64_t out = i / shape.row;
  const std::int64_t place = i % shape.row;
  const std::int64_t tap = place / shape.in;
  Floats<1> value{};
  if (tap < shape.taps) value = load<1>(w + (out * shape.in + place % shape.in) * shape.taps + tap);
  store<1>(to + i, value);
}

struct WindowShape {
  int height;
  int width;
  unsigned in;
  unsigned kernel_width;
  unsigned taps;
  unsigned row;
  unsigned result_width;
  int stride;
  int pad_top;
  int pad_left;
};

/// A pack of channels under one tap of one window for each thread.
template <int kCount, typename T>
__global__ void gather_windows(const T* x, T* to, WindowShape shape, std::int64_t first, std::int64_t packs) {
  const std::int64_t index = thread_index();
  if (index >= packs) return;
  const unsigned place = static_cast<unsigned>(index * kCount % shape.row);
  const std::int64_t pixel = first + index * kCount / shape.row;
  const unsigned tap = place / shape.in;
  const int i = static_cast<int>(pixel / shape.result_width) * shape.stride - shape.pad_top +
                static_cast<int>(tap / shape.kernel_width);
  const int j = static_cast<int>(pixel % shape.result_width) * shape.stride - shape.pad_left +
                static_cast<int>(tap % shape.kernel_width);
  Floats<kCount> values{};
  if (tap < shape.taps && i >= 0 && i < shape.height && j >= 0 && j < shape.width)
    values = load<kCount>(x + (std::int64_t{i} * shape.width + j) * shape.in + place % shape.in);
  store<kCount>(to + index * kCount, values);
}

template <int kCount, typename T, typename B>
__global__ void add_bias(const B* bias, T* y, std::int64_t channels, std::int64_t count) {
  const std::int64_t i = thread_index() * kCount;
  if (i >= count) return;
  const Floats<kCount> added = load<kCount>(bias + i % channels);
  Floats<kCount> values = load<kCount>(y + i);
#pragma unroll
  for (int j = 0; j < kCount; ++j) values[j] += added[j];
  store<kCount>(y + i, values);
}

WindowShape window_shape(const Windows& windows, std::int64_t row) {
  const ConstTensorView& x = windows.x;
  return {.height = static_cast<int>(x.size(0)),
          .width = static_cast<int>(x.size(1)),
          .in = static_cast<unsigned>(x.size(2)),
          .kernel_width = static_cast<unsigned>(windows.kernel_width),
          .taps = static_cast<unsigned>(windows.kernel_height * windows.kernel_width),
          .row = static_cast<unsigned>(row),
          .result_width = static_cast<unsigned>(windows.result_width),
          .stride = windows.options.stride,
          .pad_top = windows.options.pad_top,
          .pad_left = windows.options.pad_left};
}

}  // namespace

void channels_last_async(const ConstTensorView& w, const TensorView& to, cudaStream_t stream) {
  const std::int64_t count = to.shape().elements();
  const WeightShape shape{.in = w.size(1), .taps = w.size(2) * w.size(3), .row = to.size(1)};
  with_element(w.dtype(), [&](auto from_element) {
    with_element(to.dtype(), [&](auto to_element) {
      channels_last<<<blocks_for(count), kThreads, 0, stream>>>(w.as<decltype(from_element)>(),
                                                                to.as<decltype(to_element)>(), shape, count);
    });
  });
}

void gather_windows_async(const Windows& windows, std::int64_t first, const TensorView& to, cudaStream_t stream) {
  const WindowShape shape = window_shape(windows, to.size(1));
  const bool whole = all_in_packs({windows.x, to}, kPack);
  const std::int64_t packs = to.shape().elements() / (whole ? kPack : 1);
  with_element(to.dtype(), [&](auto element) {
    const auto kernel = whole ? gather_windows<kPack, decltype(element)> : gather_windows<1, decltype(element)>;
    kernel<<<blocks_for(packs), kThreads, 0, stream>>>(windows.x.as<decltype(element)>(), to.as<decltype(element)>(),
                                                       shape, first, packs);
  });
}

void add_bias_async(const ConstTensorView& bias, const TensorView& y, cudaStream_t stream) {
  const std::int64_t count = y.shape().elements();
  const bool whole = all_in_packs({bias, y}, kPack);
  const unsigned blocks = blocks_for(count / (whole ? kPack : 1));
  with_element(y.dtype(), [&](auto y_element) {
    with_element(bias.dtype(), [&](auto bias_element) {
      const auto kernel = whole ? add_bias<kPack, decltype(y_element), decltype(bias_element)>
                                : add_bias<1, decltype(y_element), decltype(bias_element)>;
      kernel<<<blocks, kThreads, 0, stream>>>(bias.as<decltype(bias_element)>(), y.as<decltype(y_element)>(), y.size(2),
                                              count);
    });
  });
}

}  // namespace lamina::ops::cuda
