#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/pack_cuda.cuh"

/// Element-wise kernels over [rows, columns]: each thread has one pack of columns in some rows.
namespace lamina::ops::cuda {

/// An operand whose rows lie `stride` elements apart.
template <typename T>
struct Rows {
  T* first;
  std::int64_t stride;
};

template <typename T>
Rows<const T> rows_of(const ConstTensorView& view) {
  return {view.as<T>(), view.stride(0)};
}

template <typename T>
Rows<T> rows_of(const TensorView& view) {
  return {view.as<T>(), view.stride(0)};
}

/// An operand of one row, which serves every row.
template <typename T>
struct EveryRow {
  const T* row;
};

struct RowGrid {
  std::int64_t rows;
  std::int64_t packs;  ///< of one row
  dim3 grid;
  dim3 block;
};

/// Rows of one thread whose loads are under way at once.
constexpr int kRowsAtOnce = 4;

inline RowGrid row_grid(std::int64_t rows, std::int64_t packs) {
  constexpr int kThreads = 128;
  constexpr std::int64_t kMostBlocks = 65535;  // along y; further rows take further turns
  const int across = power_of_two_from(packs, kThreads);
  const int down = kThreads / across;
  const auto tiles = static_cast<unsigned>(std::min(ceil_div(rows, down * kRowsAtOnce), kMostBlocks));
  return {rows, packs, dim3(static_cast<unsigned>(ceil_div(packs, across)), tiles),
          dim3(static_cast<unsigned>(across), static_cast<unsigned>(down))};
}

/// One pack of columns of a strided operand.
template <int kCount, typename T>
struct RowsColumn {
  const T* first;
  std::int64_t stride;

  __device__ Floats<kCount> at(std::int64_t row) const { return load<kCount>(first + row * stride); }
};

template <int kCount>
struct EveryRowColumn {
  Floats<kCount> values;

  __device__ const Floats<kCount>& at(std::int64_t) const { return values; }
};

template <int kCount, typename T>
__device__ RowsColumn<kCount, T> column_of(const Rows<const T>& rows, std::int64_t column) {
  return {rows.first + column, rows.stride};
}

template <int kCount, typename T>
__device__ EveryRowColumn<kCount> column_of(const EveryRow<T>& every, std::int64_t column) {
  return {load<kCount>(every.row + column)};
}

template <int kCount, typename Function, typename... Packs>
__device__ Floats<kCount> map_pack(Function function, const Packs&... packs) {
  Floats<kCount> result;
#pragma unroll
  for (int i = 0; i < kCount; ++i) result[i] = function(packs[i]...);
  return result;
}

/// All loads come before the first store: `to` may be one of the sources.
template <int kCount, int kRows, typename T, typename Function, typename... Columns>
__device__ void map_column(std::int64_t row, std::int64_t step, Function function, const Rows<T>& to,
                           const Columns&... from) {
  Floats<kCount> results[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) results[i] = map_pack<kCount>(function, from.at(row + i * step)...);
#pragma unroll
  for (int i = 0; i < kRows; ++i) store<kCount>(to.first + (row + i * step) * to.stride, results[i]);
}

template <int kCount, typename T, typename Function, typename... Columns>
__device__ void map_columns(std::int64_t rows, Function function, const Rows<T>& to, const Columns&... from) {
  const std::int64_t step = blockDim.y;
  const std::int64_t tile = step * kRowsAtOnce;
  for (std::int64_t row = blockIdx.y * tile + threadIdx.y; row < rows; row += gridDim.y * tile) {
    if (row + (kRowsAtOnce - 1) * step < rows) {
      map_column<kCount, kRowsAtOnce>(row, step, function, to, from...);
    } else {
      for (std::int64_t last = row; last < rows; last += step) map_column<kCount, 1>(last, step, function, to, from...);
    }
  }
}

template <int kCount, typename T, typename Function, typename... Sources>
__global__ void map_rows_kernel(std::int64_t rows, std::int64_t packs, Function function, Rows<T> to, Sources... from) {
  const std::int64_t pack = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const std::int64_t column = pack * kCount;
  map_columns<kCount>(rows, function, Rows<T>{to.first + column, to.stride}, column_of<kCount>(from, column)...);
}

/// Enqueues to = function(from...) for every element, function taking and returning f32. `kCount` elements move at
/// once; `in_packs` has allowed it. `to` may be one of `from`.
template <int kCount, typename T, typename Function, typename... Sources>
void map_rows(cudaStream_t stream, std::int64_t rows, std::int64_t columns, Function function, Rows<T> to,
              Sources... from) {
  const RowGrid plan = row_grid(rows, columns / kCount);
  map_rows_kernel<kCount><<<plan.grid, plan.block, 0, stream>>>(plan.rows, plan.packs, function, to, from...);
}

}  // namespace lamina::ops::cuda
