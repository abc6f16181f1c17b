#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "ops/arithmetic_cuda.cuh"
#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/map_rows_cuda.cuh"
#include "ops/sum_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

/// Elements of a row in one thread's registers, for short rows and for long ones.
constexpr int kFewElements = 8;
constexpr int kManyElements = 32;
constexpr int kPreferredThreads = 128;
constexpr int kMostThreads = 512;  // they leave 128 registers to each
constexpr std::int64_t kLongestRow = std::int64_t{kMostThreads} * kManyElements;

/// A row's elements that one thread of its block holds, in registers: `kPacks` packs of `kCount`, each a block's width
/// behind the one before.
template <int kCount, int kPacks>
class RowPart {
 public:
  __device__ explicit RowPart(int features) : features_(features) {}

  /// Calls visit(values, index of the first one in the row) for each pack that the row reaches.
  template <typename Visit>
  __device__ void for_each(Visit visit) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int index = (static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x)) * kCount;
      if (index < features_) visit(packs_[i], index);
    }
  }

  template <typename T>
  __device__ void load_from(const T* row) {
    for_each([=](Floats<kCount>& values, int index) { values = load<kCount>(row + index); });
  }

  template <typename T>
  __device__ void store_to(T* row) {
    for_each([=](const Floats<kCount>& values, int index) { store<kCount>(row + index, values); });
  }

  /// The mean of term(value) over the whole row; `space` as `block_sum` wants it.
  template <typename Term>
  __device__ float mean(Term term, float* space) {
    float sum = 0;
    for_each([&](const Floats<kCount>& values, int) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum += term(values[i]);
    });
    return block_sum(sum, space) / static_cast<float>(features_);
  }

 private:
  int features_;
  Floats<kCount> packs_[kPacks];
};

template <typename T>
struct ModulationRows {
  const T* scale;
  const T* shift;
  float epsilon;
};

/// y = LN(row) (1 + scale) + shift. The variance is the mean of squared deviations: a large mean costs no digits.
template <int kCount, int kPacks, typename T>
__device__ void normalise_layer(RowPart<kCount, kPacks>& row, const ModulationRows<T>& modulation, T* y) {
  __shared__ float sums[2][kMostWarps];
  const float mean = row.mean([](float value) { return value; }, sums[0]);
  const float variance = row.mean([=](float value) { return (value - mean) * (value - mean); }, sums[1]);
  const float factor = rsqrtf(variance + modulation.epsilon);
  row.for_each([=](Floats<kCount>& values, int index) {
    const Floats<kCount> scale = load<kCount>(modulation.scale + index);
    const Floats<kCount> shift = load<kCount>(modulation.shift + index);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = fmaf((values[i] - mean) * factor, 1.0F + scale[i], shift[i]);
  });
  row.store_to(y);
}

template <int kCount, int kPacks, typename T>
__global__ void __launch_bounds__(kMostThreads)
    layer_norm_modulate_kernel(int features, Rows<const T> x, ModulationRows<T> modulation, Rows<T> y) {
  RowPart<kCount, kPacks> row(features);
  row.load_from(x.first + blockIdx.x * x.stride);
  normalise_layer(row, modulation, y.first + blockIdx.x * y.stride);
}

/// Normalises the residual as it is stored, so that the result is what two operations would give.
template <int kCount, int kPacks, typename T>
__global__ void __launch_bounds__(kMostThreads)
    gated_add_norm_modulate_kernel(int features, Rows<const T> x, const T* gates, Rows<T> residual,
                                   ModulationRows<T> modulation, Rows<T> y) {
  const T* branch = x.first + blockIdx.x * x.stride;
  T* sum = residual.first + blockIdx.x * residual.stride;
  RowPart<kCount, kPacks> row(features);
  row.load_from(sum);
  row.for_each([=](Floats<kCount>& values, int index) {
    const Floats<kCount> gate = load<kCount>(gates + index);
    const Floats<kCount> added = load<kCount>(branch + index);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = as_stored<T>(gated_sum(added[i], gate[i], values[i]));
  });
  row.store_to(sum);
  normalise_layer(row, modulation, y.first + blockIdx.x * y.stride);
}

template <int kCount, int kPacks, typename T, typename Weight>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_kernel(int features, Rows<const T> x, const Weight* weights, float epsilon, Rows<T> y) {
  __shared__ float sums[kMostWarps];
  RowPart<kCount, kPacks> row(features);
  row.load_from(x.first + blockIdx.x * x.stride);
  const float squares = row.mean([](float value) { return value * value; }, sums);
  const float factor = rsqrtf(squares + epsilon);
  row.for_each([=](Floats<kCount>& values, int index) {
    const Floats<kCount> weight = load<kCount>(weights + index);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] *= factor * weight[i];
  });
  row.store_to(y.first + blockIdx.x * y.stride);
}

/// Calls launch.operator()<elements a pack, packs a thread>(threads a block), for one block a row.
template <int kCount, typename Launch>
void with_packs(std::int64_t features, Launch launch) {
  constexpr int kFewPacks = std::max(kFewElements / kCount, 1);
  constexpr int kManyPacks = kManyElements / kCount;
  const std::int64_t packs = features / kCount;
  const auto threads_for = [=](int packs_each) {
    return static_cast<unsigned>(ceil_div(ceil_div(packs, packs_each), kWarpThreads) * kWarpThreads);
  };
  if (packs <= kFewPacks * kPreferredThreads)
    launch.template operator()<kCount, kFewPacks>(threads_for(kFewPacks));
  else
    launch.template operator()<kCount, kManyPacks>(threads_for(kManyPacks));
}

/// `operands` are all that the rows of `x` meet.
template <typename T, typename Launch>
void with_row_parts(const ConstTensorView& x, std::initializer_list<ConstTensorView> operands, Launch launch) {
  constexpr int kCount = kVectorBytes / sizeof(T);
  if (all_in_packs(operands, kCount))
    with_packs<kCount>(x.size(1), launch);
  else
    with_packs<1>(x.size(1), launch);
}

void check_row(std::string_view operation, const ConstTensorView& x) {
  if (x.size(1) > kLongestRow)
    fail(ErrorCode::not_implemented, "{}: rows of {} features, at most {} are supported on CUDA", operation, x.size(1),
         kLongestRow);
}

template <typename T>
ModulationRows<T> modulation_rows(const Modulation& modulation) {
  return {modulation.scale.as<T>(), modulation.shift.as<T>(), modulation.epsilon};
}

}  // namespace

void layer_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& scale,
                         const ConstTensorView& shift, float epsilon, const TensorView& y) {
  check_row("layer_norm_modulate", x);
  cuda_launch(context, "layer_norm_modulate", {x, scale, shift}, {y}, {}, [&](cudaStream_t stream) {
    with_element(x.dtype(), [&](auto element) {
      using T = decltype(element);
      with_row_parts<T>(x, {x, scale, shift, y}, [&]<int kCount, int kPacks>(unsigned threads) {
        layer_norm_modulate_kernel<kCount, kPacks><<<static_cast<unsigned>(x.size(0)), threads, 0, stream>>>(
            static_cast<int>(x.size(1)), rows_of<T>(x), ModulationRows<T>{scale.as<T>(), shift.as<T>(), epsilon},
            rows_of<T>(y));
      });
    });
  });
}

void gated_add_norm_modulate(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate,
                             const TensorView& residual, const Modulation& modulation, const TensorView& y) {
  check_row("gated_add_norm_modulate", x);
  const auto& [scale, shift, epsilon] = modulation;
  cuda_launch(context, "gated_add_norm_modulate", {x, gate, residual, scale, shift}, {residual, y}, {},
              [&](cudaStream_t stream) {
                with_element(x.dtype(), [&](auto element) {
                  using T = decltype(element);
                  with_row_parts<T>(x, {x, gate, residual, modulation.scale, modulation.shift, y},
                                    [&]<int kCount, int kPacks>(unsigned threads) {
                                      gated_add_norm_modulate_kernel<kCount, kPacks>
                                          <<<static_cast<unsigned>(x.size(0)), threads, 0, stream>>>(
                                              static_cast<int>(x.size(1)), rows_of<T>(x), gate.as<T>(),
                                              rows_of<T>(residual), modulation_rows<T>(modulation), rows_of<T>(y));
                                    });
                });
              });
}

void rms_norm(OpContext& context, const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
              const TensorView& y) {
  check_row("rms_norm", x);
  cuda_launch(context, "rms_norm", {x, weight}, {y}, {}, [&](cudaStream_t stream) {
    with_element(x.dtype(), [&](auto element) {
      with_element(weight.dtype(), [&](auto weight_element) {
        using T = decltype(element);
        using Weight = decltype(weight_element);
        with_row_parts<T>(x, {x, weight, y}, [&]<int kCount, int kPacks>(unsigned threads) {
          rms_norm_kernel<kCount, kPacks><<<static_cast<unsigned>(x.size(0)), threads, 0, stream>>>(
              static_cast<int>(x.size(1)), rows_of<T>(x), weight.as<Weight>(), epsilon, rows_of<T>(y));
        });
      });
    });
  });
}

}  // namespace lamina::ops::cuda
