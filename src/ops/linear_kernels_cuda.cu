#include "ops/linear_kernels_cuda.h"

#include <algorithm>

#include "ops/pack_cuda.cuh"
#include "ops/sum_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpThreads;
constexpr int kPack = 8;

/// A bias of either dtype, or none.
struct Bias {
  const float* f32 = nullptr;
  const Bf16* bf16 = nullptr;

  __device__ float operator[](std::int64_t i) const {
    if (f32 != nullptr) return f32[i];
    return bf16 != nullptr ? __bfloat162float(bf16[i]) : 0.0F;
  }
};

Bias bias_of(const std::optional<ConstTensorView>& view) {
  if (!view) return {};
  if (view->dtype() == DType::bf16) return {nullptr, view->as<Bf16>()};
  return {view->as<float>(), nullptr};
}

/// The next `left` elements, at most a pack of them, and zeros.
template <bool kWhole, typename T>
__device__ Floats<kPack> load_up_to(const T* from, std::int64_t left) {
  if constexpr (kWhole) {
    return load<kPack>(from);
  } else {
    Floats<kPack> result;
#pragma unroll
    for (int i = 0; i < kPack; ++i) result[i] = i < left ? load<1>(from + i)[0] : 0.0F;
    return result;
  }
}

/// A warp for each output. `kWhole`: all packs may be loaded at once; the sums are the same without.
template <bool kWhole, typename X, typename W, typename Y>
__global__ void multiply_row(const X* x, const W* w, Bias bias, Y* y, std::int64_t in, std::int64_t out) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const std::int64_t o = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (o >= out) return;
  const W* weights = w + o * in;
  Floats<kPack> sums{};
#pragma unroll 4
  for (std::int64_t i = lane * kPack; i < in; i += kWarpThreads * kPack) {
    const auto a = load_up_to<kWhole>(x + i, in - i);
    const auto b = load_up_to<kWhole>(weights + i, in - i);
#pragma unroll
    for (int j = 0; j < kPack; ++j) sums[j] = fmaf(a[j], b[j], sums[j]);
  }
  float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  sum = group_sum(sum, kWarpThreads);
  if (lane == 0) store<1>(y + o, Floats<1>{sum + bias[o]});
}

/// A thread goes down one column.
template <typename From, typename To>
__global__ void fill_rows(const From* row, To* y, std::int64_t rows, std::int64_t features, std::int64_t row_stride) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= features) return;
  const Floats<1> value = load<1>(row + column);
  for (std::int64_t i = blockIdx.y; i < rows; i += gridDim.y) store<1>(y + i * row_stride + column, value);
}

template <int kCount, typename From, typename To>
__global__ void convert(const From* from, To* to, std::int64_t count) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kCount;
  if (i < count) store<kCount>(to + i, load<kCount>(from + i));
}

unsigned blocks_for(std::int64_t threads, std::int64_t threads_per_block) {
  return static_cast<unsigned>(ceil_div(threads, threads_per_block));
}

}  // namespace

void multiply_row_async(const ConstTensorView& x, const ConstTensorView& w, const std::optional<ConstTensorView>& bias,
                        const TensorView& y, cudaStream_t stream) {
  const std::int64_t in = w.size(1);
  const std::int64_t out = w.size(0);
  const bool whole = all_in_packs({x, w}, kPack);
  with_element(x.dtype(), [&](auto x_element) {
    with_element(w.dtype(), [&](auto w_element) {
      with_element(y.dtype(), [&](auto y_element) {
        const auto kernel = whole ? multiply_row<true, decltype(x_element), decltype(w_element), decltype(y_element)>
                                  : multiply_row<false, decltype(x_element), decltype(w_element), decltype(y_element)>;
        kernel<<<blocks_for(out, kWarps), kThreads, 0, stream>>>(x.as<decltype(x_element)>(),
                                                                 w.as<decltype(w_element)>(), bias_of(bias),
                                                                 y.as<decltype(y_element)>(), in, out);
      });
    });
  });
}

void fill_rows_async(const ConstTensorView& row, const TensorView& y, cudaStream_t stream) {
  constexpr std::int64_t kMostRowBlocks = 1024;
  const dim3 blocks(blocks_for(y.size(1), kThreads), static_cast<unsigned>(std::min(y.size(0), kMostRowBlocks)));
  with_element(row.dtype(), [&](auto from) {
    with_element(y.dtype(), [&](auto to) {
      fill_rows<<<blocks, kThreads, 0, stream>>>(row.as<decltype(from)>(), y.as<decltype(to)>(), y.size(0), y.size(1),
                                                 y.stride(0));
    });
  });
}

void convert_async(const ConstTensorView& from, const TensorView& to, cudaStream_t stream) {
  const std::int64_t count = from.shape().elements();
  const Shape flat{count};
  const bool whole = all_in_packs({from.reshape(flat), to.reshape(flat)}, kPack);
  with_element(from.dtype(), [&](auto source) {
    with_element(to.dtype(), [&](auto result) {
      const auto kernel =
          whole ? convert<kPack, decltype(source), decltype(result)> : convert<1, decltype(source), decltype(result)>;
      kernel<<<blocks_for(count, kThreads * (whole ? kPack : 1)), kThreads, 0, stream>>>(
          from.as<decltype(source)>(), to.as<decltype(result)>(), count);
    });
  });
}

}  // namespace lamina::ops::cuda
