#include <algorithm>
#include <cstdint>

#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/pack_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

/// `Unit` is what moves at once: several channels' bytes, or one channel's. `pixel` units make a pixel, `row` a row of
/// x; each thread has one unit of the row, and writes it four times.
template <typename Unit>
__global__ void upsample_kernel(const Unit* x, std::int64_t height, unsigned row, unsigned pixel, Unit* y) {
  const unsigned unit = blockIdx.x * blockDim.x + threadIdx.x;
  if (unit >= row) return;
  const unsigned column = unit / pixel;
  const std::int64_t target = std::int64_t{2} * column * pixel + unit % pixel;
  for (std::int64_t h = blockIdx.y; h < height; h += gridDim.y) {
    const Unit value = x[h * row + unit];
    Unit* above = y + 4 * h * row + target;
    Unit* below = above + std::int64_t{2} * row;
    above[0] = value;
    above[pixel] = value;
    below[0] = value;
    below[pixel] = value;
  }
}

template <typename Unit>
void enqueue(cudaStream_t stream, const ConstTensorView& x, const TensorView& y) {
  constexpr std::int64_t kThreads = 128;
  constexpr std::int64_t kMostBlocks = 65535;  // along y
  const std::int64_t pixel = x.size(2) * static_cast<std::int64_t>(size_of(x.dtype())) / std::int64_t{sizeof(Unit)};
  const dim3 grid(static_cast<unsigned>(ceil_div(x.size(1) * pixel, kThreads)),
                  static_cast<unsigned>(std::min(x.size(0), kMostBlocks)));
  upsample_kernel<<<grid, kThreads, 0, stream>>>(x.as<Unit>(), x.size(0), static_cast<unsigned>(x.size(1) * pixel),
                                                 static_cast<unsigned>(pixel), y.as<Unit>());
}

}  // namespace

void upsample_nearest_2x(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cuda_launch(context, "upsample_nearest_2x", {x}, {y}, {}, [&](cudaStream_t stream) {
    const auto element_bytes = static_cast<int>(size_of(x.dtype()));
    if (all_in_packs({x, y}, kVectorBytes / element_bytes))
      enqueue<uint4>(stream, x, y);
    else if (x.dtype() == DType::bf16)
      enqueue<std::uint16_t>(stream, x, y);
    else
      enqueue<std::uint32_t>(stream, x, y);
  });
}

}  // namespace lamina::ops::cuda
