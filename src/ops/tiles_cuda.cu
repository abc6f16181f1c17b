#include <cstdint>

#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/pack_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

/// A window's elements in the order of the tile's, one thread each.
template <typename T>
struct Window {
  T* first;
  std::int64_t row_stride;
  std::int64_t column_stride;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t channels;

  /// Calls visit(index in the tile, row, column, element).
  template <typename Visit>
  __device__ void visit_one(Visit visit) const {
    const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (index >= rows * columns * channels) return;
    const std::int64_t pixel = index / channels;
    const std::int64_t row = pixel / columns;
    const std::int64_t column = pixel % columns;
    visit(index, row, column, first + row * row_stride + column * column_stride + index % channels);
  }
};

template <typename T, typename View>
Window<T> window_of(const View& view) {
  return {reinterpret_cast<T*>(view.data()), view.stride(0), view.stride(1), view.size(0), view.size(1), view.size(2)};
}

constexpr int kThreads = 256;

unsigned blocks_for(const ConstTensorView& tile) {
  return static_cast<unsigned>(ceil_div(tile.shape().elements(), kThreads));
}

template <typename T>
__global__ void cut_kernel(const Window<const T> window, T* tile) {
  window.visit_one([=](std::int64_t index, std::int64_t, std::int64_t, const T* element) { tile[index] = *element; });
}

/// Weight of pixel `i` of `count` along one axis.
__device__ float weight_at(std::int64_t i, std::int64_t count, std::int64_t rise, std::int64_t fall) {
  if (i < rise) return static_cast<float>(i) / static_cast<float>(rise);
  if (i >= count - fall) return static_cast<float>(count - i) / static_cast<float>(fall);
  return 1.0F;
}

template <typename T>
__global__ void blend_kernel(const T* tile, const TileOverlap overlap, const Window<float> window) {
  window.visit_one([=](std::int64_t index, std::int64_t row, std::int64_t column, float* element) {
    const float weight = weight_at(row, window.rows, overlap.top, overlap.bottom) *
                         weight_at(column, window.columns, overlap.left, overlap.right);
    *element = fmaf(weight, load<1>(tile + index)[0], *element);
  });
}

}  // namespace

void cut_tile(OpContext& context, const ConstTensorView& window, const TensorView& tile) {
  cuda_launch(context, "cut_tile", {window}, {tile}, {}, [&](cudaStream_t stream) {
    with_element(tile.dtype(), [&](auto element) {
      using T = decltype(element);
      cut_kernel<T><<<blocks_for(tile), kThreads, 0, stream>>>(window_of<const T>(window), tile.as<T>());
    });
  });
}

void blend_tile(OpContext& context, const ConstTensorView& tile, const TileOverlap& overlap, const TensorView& window) {
  cuda_launch(context, "blend_tile", {tile, window}, {window}, {}, [&](cudaStream_t stream) {
    with_element(tile.dtype(), [&](auto element) {
      using T = decltype(element);
      blend_kernel<T><<<blocks_for(tile), kThreads, 0, stream>>>(tile.as<T>(), overlap, window_of<float>(window));
    });
  });
}

}  // namespace lamina::ops::cuda
