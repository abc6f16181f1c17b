#include <cstddef>
#include <cstdint>

#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/lines.h"
#include "ops/map_rows_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

/// `Lines` as a kernel takes it.
template <typename Byte>
struct DeviceLines {
  Byte* first;
  std::int64_t strides[3];

  explicit DeviceLines(const Lines<Byte>& lines)
      : first(lines.first), strides{lines.strides[0], lines.strides[1], lines.strides[2]} {}

  __device__ Byte* at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return first + i * strides[0] + j * strides[1] + k * strides[2];
  }
};

/// Lines one behind the other in y's block, packs of a line in its x. A thread moves one `Word` of some lines.
template <typename Word>
__global__ void copy_kernel(std::int64_t lines, std::int64_t words, std::int64_t middle, std::int64_t inner,
                            DeviceLines<const std::byte> from, DeviceLines<std::byte> to) {
  const std::int64_t word = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (word >= words) return;
  const std::int64_t step = std::int64_t{gridDim.y} * blockDim.y;
  for (std::int64_t line = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; line < lines; line += step) {
    const std::int64_t k = line % inner;
    const std::int64_t j = line / inner % middle;
    const std::int64_t i = line / inner / middle;
    reinterpret_cast<Word*>(to.at(i, j, k))[word] = reinterpret_cast<const Word*>(from.at(i, j, k))[word];
  }
}

template <typename Word>
void launch(cudaStream_t stream, const Lines<const std::byte>& from, const Lines<std::byte>& to) {
  const RowGrid plan = row_grid(to.count(), to.size_bytes / static_cast<std::int64_t>(sizeof(Word)));
  copy_kernel<Word><<<plan.grid, plan.block, 0, stream>>>(plan.rows, plan.packs, to.extents[1], to.extents[2],
                                                          DeviceLines(from), DeviceLines(to));
}

}  // namespace

void copy(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cuda_launch(context, "copy", {x}, {y}, {}, [&](cudaStream_t stream) {
    const Lines from(x);
    const Lines to(y);
    if (all_in_packs({x, y}, kVectorBytes / static_cast<int>(size_of(x.dtype()))))
      launch<uint4>(stream, from, to);
    else if (x.dtype() == DType::bf16)
      launch<std::uint16_t>(stream, from, to);
    else
      launch<std::uint32_t>(stream, from, to);
  });
}

}  // namespace lamina::ops::cuda
