#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "tensor/tensor_view.h"

/// How kernels move elements: in packs of adjacent ones, one or two vectors of up to 16 bytes each, and as f32 between.
namespace lamina::ops::cuda {

using Bf16 = __nv_bfloat16;

/// What one thread moves at once where alignment allows it.
constexpr int kVectorBytes = 16;

constexpr int pack_alignment(int count, int element_bytes) {
  return count * element_bytes < kVectorBytes ? count * element_bytes : kVectorBytes;
}

template <int kCount>
struct Floats {
  float values[kCount];

  __device__ float& operator[](int i) { return values[i]; }
  __device__ const float& operator[](int i) const { return values[i]; }
};

/// `kCount` elements as they lie in memory.
template <typename T, int kCount>
struct alignas(pack_alignment(kCount, sizeof(T))) Pack {
  T elements[kCount];
};

template <int kCount>
__device__ Floats<kCount> load(const float* from) {
  const auto pack = *reinterpret_cast<const Pack<float, kCount>*>(from);
  Floats<kCount> result;
#pragma unroll
  for (int i = 0; i < kCount; ++i) result[i] = pack.elements[i];
  return result;
}

/// bf16 is the upper half of an f32.
template <int kCount>
__device__ Floats<kCount> load(const Bf16* from) {
  const auto pack = *reinterpret_cast<const Pack<std::uint16_t, kCount>*>(from);
  Floats<kCount> result;
#pragma unroll
  for (int i = 0; i < kCount; ++i) result[i] = __uint_as_float(std::uint32_t{pack.elements[i]} << 16);
  return result;
}

template <int kCount>
__device__ void store(float* to, const Floats<kCount>& values) {
  Pack<float, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.elements[i] = values[i];
  *reinterpret_cast<Pack<float, kCount>*>(to) = pack;
}

/// To the nearest, ties to even.
template <int kCount>
__device__ void store(Bf16* to, const Floats<kCount>& values) {
  Pack<std::uint16_t, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.elements[i] = __bfloat16_as_ushort(__float2bfloat16_rn(values[i]));
  *reinterpret_cast<Pack<std::uint16_t, kCount>*>(to) = pack;
}

/// What storing and loading again makes of a value.
template <typename T>
__device__ float as_stored(float value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return __bfloat162float(__float2bfloat16_rn(value));
  else
    return value;
}

/// Whether packs of `count` elements cover the last axis exactly, wherever the other axes start.
inline bool in_packs(const ConstTensorView& view, int count) {
  const auto element_bytes = static_cast<std::int64_t>(size_of(view.dtype()));
  const std::int64_t alignment = pack_alignment(count, static_cast<int>(element_bytes));
  const std::size_t last = view.rank() - 1;
  if (view.size(last) % count != 0 || reinterpret_cast<std::uintptr_t>(view.data()) % alignment != 0) return false;
  for (std::size_t axis = 0; axis < last; ++axis) {
    if (view.size(axis) > 1 && view.stride(axis) * element_bytes % alignment != 0) return false;
  }
  return true;
}

inline bool all_in_packs(std::initializer_list<ConstTensorView> views, int count) {
  return std::all_of(views.begin(), views.end(), [=](const ConstTensorView& view) { return in_packs(view, count); });
}

/// Calls body(T{}) with the C++ type of an activation or a weight.
template <typename Body>
void with_element(DType dtype, Body body) {
  if (dtype == DType::bf16)
    body(Bf16{});
  else
    body(float{});
}

inline std::int64_t ceil_div(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

/// At least 1.
inline int power_of_two_from(std::int64_t value, int largest) {
  int power = 1;
  while (power < value && power < largest) power *= 2;
  return power;
}

}  // namespace lamina::ops::cuda
