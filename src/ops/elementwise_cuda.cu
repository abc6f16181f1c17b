#include <algorithm>
#include <string_view>
#include <type_traits>

#include "ops/arithmetic_cuda.cuh"
#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/map_rows_cuda.cuh"

namespace lamina::ops::cuda {

namespace {

struct Silu {
  __device__ float operator()(float x) const { return silu_of(x); }
};

struct SiluMul {
  __device__ float operator()(float gate, float up) const { return silu_of(gate) * up; }
};

struct Sum {
  __device__ float operator()(float x, float y) const { return x + y; }
};

struct GatedSum {
  __device__ float operator()(float x, float gate, float y) const { return gated_sum(x, gate, y); }
};

struct Guide {
  float scale;
  __device__ float operator()(float with, float without) const { return fmaf(scale, with - without, without); }
};

struct Step {
  float step;
  __device__ float operator()(float velocity, float latents) const { return fmaf(step, velocity, latents); }
};

struct Same {
  __device__ float operator()(float x) const { return x; }
};

/// An operand of [features], for all rows.
struct Vector {
  ConstTensorView view;
  operator ConstTensorView() const { return view; }  // NOLINT(google-explicit-constructor)
};

template <typename T>
Rows<const T> source_of(const ConstTensorView& view) {
  return rows_of<T>(view);
}

template <typename T>
EveryRow<T> source_of(const Vector& vector) {
  return {vector.view.as<T>()};
}

/// y = function(from...), all of one dtype; each of `from` is a ConstTensorView of y's shape or a Vector.
template <typename Function, typename... Operands>
void map(OpContext& context, std::string_view name, Function function, const TensorView& y, const Operands&... from) {
  cuda_launch(context, name, {from...}, {y}, {}, [&](cudaStream_t stream) {
    with_element(y.dtype(), [&](auto element) {
      using T = decltype(element);
      const auto run = [&](auto count) {
        map_rows<count()>(stream, y.size(0), y.size(1), function, rows_of<T>(y), source_of<T>(from)...);
      };
      constexpr int kCount = kVectorBytes / sizeof(T);
      if (all_in_packs({y, from...}, kCount))
        run(std::integral_constant<int, kCount>());
      else
        run(std::integral_constant<int, 1>());
    });
  });
}

/// y = x, both [1, elements], of unlike dtypes.
template <typename From, typename To>
void convert(cudaStream_t stream, const ConstTensorView& x, const TensorView& y) {
  constexpr int kCount = kVectorBytes / std::max(sizeof(From), sizeof(To));
  if (all_in_packs({x, y}, kCount))
    map_rows<kCount>(stream, 1, y.size(1), Same{}, rows_of<To>(y), rows_of<From>(x));
  else
    map_rows<1>(stream, 1, y.size(1), Same{}, rows_of<To>(y), rows_of<From>(x));
}

}  // namespace

void silu(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  map(context, "silu", Silu{}, y, x);
}

void silu_mul(OpContext& context, const ConstTensorView& gate, const ConstTensorView& up, const TensorView& y) {
  map(context, "silu_mul", SiluMul{}, y, gate, up);
}

void add(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  map(context, "add", Sum{}, y, x, ConstTensorView(y));
}

void gated_add(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate, const TensorView& y) {
  map(context, "gated_add", GatedSum{}, y, x, Vector{gate}, ConstTensorView(y));
}

void cast(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cuda_launch(context, "cast", {x}, {y}, {}, [&](cudaStream_t stream) {
    const Shape flat{1, x.shape().elements()};
    if (x.dtype() == y.dtype())
      lamina::cuda::check(cudaMemcpyAsync(y.data(), x.data(), x.span_bytes(), cudaMemcpyDeviceToDevice, stream));
    else if (x.dtype() == DType::bf16)
      convert<Bf16, float>(stream, x.reshape(flat), y.reshape(flat));
    else
      convert<float, Bf16>(stream, x.reshape(flat), y.reshape(flat));
  });
}

void guide(OpContext& context, const ConstTensorView& conditional, const ConstTensorView& unconditional, float scale,
           const TensorView& velocity) {
  map(context, "guide", Guide{scale}, velocity, conditional, unconditional);
}

void euler_step(OpContext& context, const ConstTensorView& velocity, float step, const TensorView& latents) {
  map(context, "euler_step", Step{step}, latents, velocity, ConstTensorView(latents));
}

}  // namespace lamina::ops::cuda
